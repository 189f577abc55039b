package claude

import (
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// meter adds up a run's usage from the stream, so that a run that is killed still has its
// tokens and an estimate of its cost. Usage is counted once per message id: the stream
// repeats a message for each of its blocks, and the last repetition has the full usage.
type meter struct {
	messages   map[string]counted // the last ones, at most maxMessages
	older      map[string]counted // as many before those
	folded     usage              // of all before them
	foldedCost float64            // their cost
	current    string             // the message whose stream events arrive
	model      string
	resumed    bool    // the current turn resumes a session
	cost       float64 // of finished turns, as claude reported it
	turns      int64
	finished   usage // of finished turns

	keySource string // where claude got its API key; "none" on a subscription
}

type counted struct {
	usage usage
	model string
}

// Bounds of what is remembered, because a task can print to claude's output.
const (
	maxMessages = 256
	maxName     = 128 // of a message or a model, in bytes
)

func (m *meter) add(id, model string, u *usage) {
	if id == "" || len(id) > maxName || u == nil {
		return
	}
	before, last := m.messages[id]
	if !last {
		before = m.older[id]
		delete(m.older, id)
		if m.messages == nil || len(m.messages) >= maxMessages {
			m.folded, m.foldedCost = sum(m.folded, usageOf(m.older)), m.foldedCost+costOf(m.older)
			m.messages, m.older = map[string]counted{}, m.messages
		}
	}
	if model = storable.Cut(model, maxName); model == "" {
		model = before.model
	}
	m.messages[id] = counted{model: model, usage: usage{
		Input:         max(before.usage.Input, u.Input),
		Output:        max(before.usage.Output, u.Output),
		CacheCreation: max(before.usage.CacheCreation, u.CacheCreation),
		CacheRead:     max(before.usage.CacheRead, u.CacheRead),
	}}
	if model != "" && !strings.HasPrefix(model, "<") { // "<synthetic>" is text of claude's own
		m.model = model
	}
}

// observe counts a line of the stream.
func (m *meter) observe(line message) {
	switch {
	case line.Type == "assistant" && line.Message != nil:
		m.add(line.Message.ID, line.Message.Model, line.Message.Usage)
	case line.Type == "system" && line.Subtype == "init":
		m.keySource = line.APIKeySource
	case line.Type == "stream_event" && line.Event != nil:
		if line.Event.Message != nil {
			m.current = line.Event.Message.ID
			m.add(m.current, line.Event.Message.Model, line.Event.Message.Usage)
		}
		if line.Event.Usage != nil {
			m.add(m.current, "", line.Event.Usage)
		}
	case line.Type == "result":
		m.finishTurn(line)
	}
}

// finishTurn adds the usage of a finished turn: the larger of what the stream and what the
// result reported. The result of a resumed session may include its earlier turns; then
// only the stream counts.
func (m *meter) finishTurn(line message) {
	streamed := m.unfinished()
	models, cost := line.SinceLast, 0.0
	if models == nil && !m.resumed {
		models = line.ModelUsage
	}
	var reported usage
	for _, u := range models {
		reported = sum(reported, usage{u.Input, u.Output, u.CacheCreation, u.CacheRead})
		cost += u.CostUSD
	}
	m.finished = sum(m.finished, usage{
		Input:         max(streamed.Input, reported.Input),
		Output:        max(streamed.Output, reported.Output),
		CacheCreation: max(streamed.CacheCreation, reported.CacheCreation),
		CacheRead:     max(streamed.CacheRead, reported.CacheRead),
	})
	switch {
	case line.SinceLast != nil:
		m.cost += cost
	case line.TotalCostUSD != nil && !m.resumed:
		m.cost += *line.TotalCostUSD
	default:
		m.cost += m.unfinishedCost()
	}
	m.turns += line.NumTurns
	m.messages, m.older, m.folded, m.foldedCost = nil, nil, usage{}, 0
	m.resumed = true // another result of the same turn counts from the session's start, too
}

func (m *meter) unfinished() usage { return sum(m.folded, sum(usageOf(m.older), usageOf(m.messages))) }

func usageOf(messages map[string]counted) usage {
	var total usage
	for _, c := range messages {
		total = sum(total, c.usage)
	}
	return total
}

func sum(a, b usage) usage {
	return usage{a.Input + b.Input, a.Output + b.Output, a.CacheCreation + b.CacheCreation, a.CacheRead + b.CacheRead}
}

// total returns the usage so far.
func (m *meter) total() usage { return sum(m.finished, m.unfinished()) }

// budget returns the tokens that count against policy.budget.
func (u usage) budget() int64 { return u.Input + u.Output + u.CacheCreation }

// pricesPerMillion are list prices in US dollars, by a word in the model's name. They are
// used only for runs that were killed before claude reported their cost.
var pricesPerMillion = []struct {
	word          string
	input, output float64
}{
	{"haiku", 1, 5},
	{"sonnet", 3, 15},
	{"opus", 5, 25},
}

// costSoFar returns the cost of the finished turns plus an estimate for the current one.
func (m *meter) costSoFar() float64 { return m.cost + m.unfinishedCost() }

func (m *meter) unfinishedCost() float64 { return m.foldedCost + costOf(m.older) + costOf(m.messages) }

func costOf(messages map[string]counted) float64 {
	var cost float64
	for _, c := range messages {
		for _, price := range pricesPerMillion {
			if strings.Contains(c.model, price.word) {
				u := c.usage
				// Cache writes cost a quarter more than input, reads a tenth of it.
				cost += (price.input*(float64(u.Input)+1.25*float64(u.CacheCreation)+0.1*float64(u.CacheRead)) +
					price.output*float64(u.Output)) / 1e6
				break
			}
		}
	}
	return cost
}

// metrics returns the metrics of a completion. Input tokens include cache creation, so
// that input and output add up to the tokens used.
func (m *meter) metrics(durationMS int64) bloom.Metrics {
	total := m.total()
	out := bloom.Metrics{DurationMS: max(durationMS, 0), Model: m.model, CostKind: "none"}
	if total == (usage{}) {
		return out
	}
	used, input, output := total.budget(), total.Input+total.CacheCreation, total.Output
	cost := m.costSoFar()
	out.TokensUsed, out.InputTokens, out.OutputTokens, out.CostUSD = &used, &input, &output, &cost
	out.CostKind = m.costKind()
	if m.turns > 0 {
		turns := m.turns
		out.NumTurns = &turns
	}
	return out
}

// costKind returns whether the cost is paid, or only an estimate because claude runs on a
// subscription.
func (m *meter) costKind() string {
	if m.keySource == "" || m.keySource == "none" {
		return "subscription_estimate"
	}
	return "api_usd"
}
