package cli

import (
	"time"

	"github.com/bloom-runtime/bloom"
)

type leasesCmd struct {
	List leasesListCmd `cmd:"" default:"withargs" help:"List leases, newest first."`
}

type leasesListCmd struct {
	remote
	paging
	Status string `name:"status" enum:",active,expired,released,failed" default:"" placeholder:"STATUS" help:"Only leases in this status: active, expired, released, failed."`
	Task   string `name:"task" placeholder:"ID" help:"Only leases of this task."`
	Worker string `name:"worker" placeholder:"NAME" help:"Only leases of this worker."`
}

func (c *leasesListCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	if c.Task, err = c.findTask(inv, api, c.Task); err != nil {
		return err
	}
	leases, err := take(c.paging, api.AllLeases(inv.ctx, bloom.LeaseQuery{Status: bloom.LeaseStatus(c.Status), TaskID: c.Task, WorkerID: c.Worker, Page: c.page()}))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, leases)
	}
	now := time.Now()
	t := newTable("LEASE", "TASK", "WORKER", "STATUS", "EPOCH", "STARTED", "DURATION", "COST", "EXPIRES")
	for _, l := range leases {
		expires, end := "-", l.LastHeartbeat
		if l.Status == bloom.LeaseActive {
			expires, end = ago(now, l.ExpiresAt), now.UnixMilli()
		}
		t.row(l.ID, l.TaskID, l.WorkerID, l.Status, l.Epoch, ago(now, l.StartedAt), span(time.Duration(end-l.StartedAt)*time.Millisecond), cost(&l.Usage), expires)
	}
	return t.print(inv)
}

func statusStyle(s bloom.TaskStatus) string {
	switch s {
	case bloom.TaskCompleted:
		return styleGreen
	case bloom.TaskFailed, bloom.TaskDead:
		return styleRed
	case bloom.TaskCancelled:
		return styleYellow
	case bloom.TaskLeased, bloom.TaskRunning:
		return styleCyan
	case bloom.TaskQueued:
	}
	return ""
}
