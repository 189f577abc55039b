package membridge_test

import (
	"fmt"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

func TestADrainOrderedAtOneReplicaWakesTheHeartbeatWaitingAtAnother(t *testing.T) {
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
		// Its heartbeat may be recorded after its bell was taken: look more than once.
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

func TestAnOrderTakenByOneReplicaWakesTheHeartbeatWaitingAtAnother(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	shared := func(c *membridge.Config) { c.DatabaseURL, c.Clock = url, nil }
	one, other := ready(t, shared), start(t, shared)
	got := make(chan answer)
	go func() { got <- other.do(t, "POST", "/agents/a/heartbeat", `{"wait_sec":60}`) }()
	waitFor(t, func() bool { return waitingHeartbeats(t, other) == "1" })
	// The heartbeat is recorded after its bell was taken; the order needs it.
	waitFor(t, func() bool { return one.do(t, "POST", "/sync/push", order).status == 200 })
	if err := other.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cmds := (<-got).json(t)["commands"].([]any); len(cmds) != 1 {
		t.Errorf("commands: %v", cmds)
	}
}
