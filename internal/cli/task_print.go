package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

func printTask(inv *invocation, task bloom.Task, results []bloom.Result) error {
	now := time.Now()
	t := newTable("FIELD", "VALUE")
	t.row("task", task.ID)
	t.row("status", cell{string(task.Status), statusStyle(task.Status)})
	if w := task.WaitingFor; w != nil {
		t.row("waiting", w.Sentence)
	}
	t.row("agent", task.AgentSlug)
	t.row("context", task.ContextID)
	t.row("created", ago(now, task.CreatedAt))
	t.row("took", took(task))
	t.row("updated", ago(now, task.UpdatedAt))
	t.row("worker", dash(deref(task.WorkerID)))
	t.row("attempts", fmt.Sprintf("%d of %d", task.Attempts, task.MaxAttempts))
	t.row("policy", fmt.Sprintf("timeout %s, budget %s tokens", briefly(int64(task.Policy.TimeoutSec)), unlimited(task.Policy.Budget)))
	if task.Usage != nil {
		t.row("used", usageLine(*task.Usage))
	}
	if len(task.Labels) > 0 {
		t.row("labels", strings.Join(task.Labels, ", "))
	}
	if len(task.ContextHints) > 0 {
		t.row("hints", strings.Join(task.ContextHints, ", "))
	}
	if class := deref(task.ErrorClass); class != "" {
		t.row("error", class)
	}
	if task.CancelRequested && !task.Status.Terminal() {
		t.row("cancel", "requested")
	}
	t.row("prompt", oneLine(task.Prompt, 100))
	p := inv.outPainter()
	if err := t.print(inv); err != nil {
		return err
	}
	for _, r := range results {
		if err := printResult(inv, p, r); err != nil {
			return err
		}
	}
	return nil
}

func printResult(inv *invocation, p painter, r bloom.Result) error {
	head := fmt.Sprintf("\nresult %s: %s on %s, %s", r.ID, r.Status, r.WorkerID, metricsLine(r.Metrics))
	body := clean(deref(r.Output), true)
	if r.ErrorMessage != nil {
		body = strings.TrimSpace(body + "\n" + clean(*r.ErrorMessage, true))
	}
	if body == "" && r.Output == nil && r.Status == bloom.OutcomeSuccess {
		body = "(large; read it with: " + inv.command("artifacts content "+r.ArtifactID) + ")"
	}
	if _, err := fmt.Fprintf(inv.Out, "%s\n%s\n", p.paint(styleBold, clean(head, true)), body); err != nil {
		return err
	}
	for _, w := range r.Metrics.Warnings {
		if _, err := fmt.Fprintln(inv.Out, p.paint(styleYellow, warningLine(w))); err != nil {
			return err
		}
	}
	return nil
}

func unlimited(n int64) string {
	if n == 0 {
		return "unlimited"
	}
	return thousands(n)
}

// usageLine describes what attempts have used.
func usageLine(u bloom.Usage) string {
	return fmt.Sprintf("%s tokens · $%.4f", thousands(u.TokensUsed), u.CostUSD)
}

// metricsLine describes what an attempt used.
func metricsLine(m bloom.Metrics) string {
	parts := []string{span(time.Duration(m.DurationMS) * time.Millisecond)}
	if m.NumTurns != nil {
		parts = append(parts, plural(*m.NumTurns, "turn"))
	}
	if m.TokensUsed != nil {
		parts = append(parts, thousands(*m.TokensUsed)+" tokens")
	}
	if m.CostUSD != nil {
		cost := fmt.Sprintf("$%.4f", *m.CostUSD)
		if m.CostKind == "subscription_estimate" {
			cost += " (estimate, covered by the subscription)"
		}
		parts = append(parts, cost)
	}
	if m.Model != "" {
		parts = append(parts, m.Model)
	}
	return strings.Join(parts, " · ")
}

func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return thousands(n) + " " + word + "s"
}
