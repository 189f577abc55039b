package cli

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
)

type memoryAgentCmd struct {
	config.Data
	config.Memory
	Sync      config.MemorySync   `embed:""`
	Membridge config.Announcement `embed:""`
	Interval  time.Duration       `name:"membridge-interval" var:"BLOOM_MEMBRIDGE_INTERVAL" key:"membridge_interval" default:"10s" help:"How often the node sends membridge a heartbeat, 1s to 1h."`
}

func (c *memoryAgentCmd) Run(inv *invocation) error {
	if err := c.Memory.Finish(); err != nil {
		return usage(err)
	}
	if err := c.Sync.Finish(&c.Memory); err != nil {
		return usage(err)
	}
	if err := c.Membridge.Finish(); err != nil {
		return usage(err)
	}
	if c.Interval < time.Second || c.Interval > time.Hour {
		return usagef("--membridge-interval: %s is not between 1s and 1h", c.Interval)
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return usage(err)
	}
	build, err := inv.build("memory agent")
	if err != nil {
		return err
	}
	account, err := membridgeAccount(c.Membridge, build.Logger)
	if err != nil {
		return err
	}
	a, err := app.OpenMemoryAgent(app.MemoryAgentConfig{Memory: c.Memory, Every: c.Sync.Every, DataDir: dir, Interval: c.Interval,
		Membridge: account}, build)
	if err != nil {
		return err
	}
	how := "on membridge's request"
	if c.Sync.Every > 0 {
		how = fmt.Sprintf("every %s", c.Sync.Every)
	}
	inv.say("Node %s moves the memory of %s, %s, %s", c.Node, c.Project, c.DB, how)
	return a.Run(inv.ctx)
}
