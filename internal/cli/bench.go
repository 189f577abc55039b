package cli

type benchCmd struct {
	Run   benchRunCmd   `cmd:"" default:"withargs" help:"Measure lifecycles, latencies and lists."`
	Polls benchPollsCmd `cmd:"" help:"Let many workers wait for work at once."`
	Fill  benchFillCmd  `cmd:"" help:"Create many tasks, to measure with a full store."`
}
