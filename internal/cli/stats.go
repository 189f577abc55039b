package cli

import (
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

type statsCmd struct {
	remote
	Since time.Duration `name:"since" placeholder:"DURATION" help:"Show activity over this period, up to 2160h (90 days), instead of the current counts."`
}

func (c *statsCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.Since != 0 {
		return c.series(inv, api)
	}
	stats, err := api.Stats(inv.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, stats)
	}
	t := newTable("WHAT", "COUNT")
	t.row("tasks", thousands(stats.Tasks.Total))
	for _, s := range bloom.TaskStatuses {
		if n := stats.Tasks.ByStatus[s]; n > 0 {
			t.row("  "+string(s), cell{thousands(n), statusStyle(s)})
		}
	}
	if stats.Leases.Usage != (bloom.Usage{}) {
		t.row("  used by running tasks", usageLine(stats.Leases.Usage))
	}
	t.row("leases", fmt.Sprintf("%s (%s active)", thousands(stats.Leases.Total), thousands(stats.Leases.Active)))
	t.row("workers", fmt.Sprintf("%s (%s online)", thousands(stats.Workers.Total), thousands(stats.Workers.Online)))
	return t.print(inv)
}

// seriesRows is the approximate number of rows in a table of the time series.
const seriesRows = 24

// series prints the time series.
func (c *statsCmd) series(inv *invocation, api *client.Client) error {
	if c.Since < time.Minute || c.Since > contract.SeriesHours {
		return usagef("--since must be between 1m and %s", span(contract.SeriesHours))
	}
	now := time.Now()
	series, err := api.Series(inv.ctx, now.Add(-c.Since), now, stepOf(c.Since))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, series)
	}
	layout := "15:04"
	if c.Since > 24*time.Hour {
		layout = "01-02 15:04"
	}
	t := newTable("FROM", "CREATED", "STARTED", "COMPLETED", "FAILED", "DEAD", "CANCELLED", "TOKENS", "COST", "QUEUED")
	total := bloom.SeriesPoint{}
	row := func(name string, p bloom.SeriesPoint) {
		queued := "-"
		if p.Queued != nil {
			queued = thousands(*p.Queued)
		}
		t.row(name, thousands(p.Created), thousands(p.Started), thousands(p.Completed), thousands(p.Failed), thousands(p.Dead), thousands(p.Cancelled),
			thousands(p.TokensUsed), fmt.Sprintf("$%.2f", p.CostUSD), queued)
	}
	for _, p := range series.Points {
		row(time.UnixMilli(p.At).Format(layout), p)
		total.Created += p.Created
		total.Started += p.Started
		total.Completed += p.Completed
		total.Failed += p.Failed
		total.Dead += p.Dead
		total.Cancelled += p.Cancelled
		total.TokensUsed += p.TokensUsed
		total.CostUSD += p.CostUSD
	}
	if used := series.Now.Usage; used != (bloom.Usage{}) {
		t.row("running", "-", "-", "-", "-", "-", "-", thousands(used.TokensUsed), fmt.Sprintf("$%.2f", used.CostUSD), "-")
		total.TokensUsed += used.TokensUsed
		total.CostUSD += used.CostUSD
	}
	total.Queued = &series.Now.Queued
	row("all", total)
	return t.print(inv)
}

// stepOf returns a round step that divides a period into about seriesRows rows.
func stepOf(d time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour} {
		if d <= seriesRows*step {
			return step
		}
	}
	return 7 * 24 * time.Hour
}
