package cli

type benchCmd struct {
	Run   benchRunCmd   `cmd:"" default:"withargs" help:"Measure lifecycles, latencies and lists."`
	Polls benchPollsCmd `cmd:"" help:"Let many workers wait for work at once."`
	Fill  benchFillCmd  `cmd:"" help:"Create many tasks, to measure with a full store."`
}

// shown prints what a measurement came to, or why it came to nothing.
func (r *remote) shown(inv *invocation, report interface{ print(*invocation) error }, err error) error {
	switch {
	case err != nil:
		return interrupted(inv, err)
	case r.JSON:
		return writeJSON(inv.Out, report)
	}
	return report.print(inv)
}
