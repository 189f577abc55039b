package membridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

func TestADrainAtOneReplicaWakesTheHeartbeatWaitingAtAnother(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	shared := func(c *membridge.Config) { c.DatabaseURL, c.Clock = url, nil }
	one, other := ready(t, shared), start(t, shared)
	for _, drain := range []bool{true, false} {
		got := make(chan answer, 1)
		go func() {
			got <- other.do(t, "POST", "/agents/a/heartbeat", fmt.Sprintf(`{"wait_sec":60,"drain":%v}`, !drain))
		}()
		waitFor(t, func() bool { return waitingHeartbeats(t, other) == "1" })
		one.want(t, 200, "POST", "/agents/a/drain", fmt.Sprintf(`{"drain":%v}`, drain))
		// Its heartbeat may be recorded after its channel was read: check more than once.
		waitFor(t, func() bool {
			if err := other.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			return len(got) == 1
		})
		if b := (<-got).json(t); b["drain"] != drain {
			t.Errorf("answer: %v", b)
		}
	}
}

func TestDeletingAnAgentWakesItsHeartbeatAtAnotherReplica(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	shared := func(c *membridge.Config) { c.DatabaseURL, c.Clock = url, nil }
	one, other := ready(t, shared), start(t, shared)
	one.want(t, 201, "POST", "/agents", `{"name":"b"}`)
	got, stays := make(chan answer, 1), make(chan answer, 1)
	waits := func(running int) { // and is recorded, as the load shows
		go func() {
			got <- other.as(t, with(tokenA), "POST", "/agents/a/heartbeat", fmt.Sprintf(`{"wait_sec":60,"interval_sec":60,"load":{"running":%d}}`, running))
		}()
		waitFor(t, func() bool {
			return one.want(t, 200, "GET", "/agents", "").list(t)[0]["load"].(map[string]any)["running"] == float64(running)
		})
	}
	go func() { stays <- other.do(t, "POST", "/agents/b/heartbeat", `{"wait_sec":60}`) }()
	waits(7)
	waitFor(t, func() bool { return waitingHeartbeats(t, other) == "2" })
	answered := func() answer { // long before the heartbeat would end
		t.Helper()
		for end := time.After(30 * time.Second); ; {
			if err := other.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case a := <-got:
				return a
			case <-end:
				t.Fatal("it waits on")
			default:
			}
		}
	}
	one.want(t, 204, "DELETE", "/agents/a", "")
	if a := answered(); a.status != 404 {
		t.Errorf("the forgotten agent: %d %s", a.status, a.body)
	}
	if waitingHeartbeats(t, other) != "1" || len(stays) != 0 {
		t.Error("the other agent was woken")
	}

	// If the name belongs to another agent by then, it does not get that agent's commands.
	one.want(t, 201, "POST", "/agents", `{"name":"a"}`)
	waits(8)
	one.want(t, 204, "DELETE", "/agents/a", "")
	for _, path := range []string{"/agents", "/agents/a/heartbeat"} {
		if a := one.as(t, with(tokenB), "POST", path, `{"name":"a"}`); a.status > 201 {
			t.Fatalf("the next of the name: %d %s", a.status, a.body)
		}
	}
	one.want(t, 200, "POST", "/sync/push", order)
	if a := answered(); a.status != 409 {
		t.Errorf("who had the name before: %d %s", a.status, a.body)
	}
}

func TestACommandAtOneReplicaWakesTheHeartbeatWaitingAtAnother(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	shared := func(c *membridge.Config) { c.DatabaseURL, c.Clock = url, nil }
	one, other := ready(t, shared), start(t, shared)
	got := make(chan answer)
	go func() { got <- other.do(t, "POST", "/agents/a/heartbeat", `{"wait_sec":60}`) }()
	waitFor(t, func() bool { return waitingHeartbeats(t, other) == "1" })
	// The heartbeat is recorded after its channel was read; the command needs it.
	waitFor(t, func() bool { return one.do(t, "POST", "/sync/push", order).status == 200 })
	if err := other.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cmds := (<-got).json(t)["commands"].([]any); len(cmds) != 1 {
		t.Errorf("commands: %v", cmds)
	}
}
