package membridge_test

import (
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

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
