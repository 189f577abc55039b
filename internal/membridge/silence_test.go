package membridge_test

import (
	"fmt"
	"testing"
	"time"
)

func TestASilentAgentIsOfflineAfterThreeIntervalsAndOnlineAtItsNextHeartbeat(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.want(t, 201, "POST", "/agents", `{"name":"a","interval_sec":5}`)
	p.want(t, 200, "POST", "/agents/a/heartbeat", `{"load":{"running":2},"capabilities":{"max_concurrency":3}}`)
	p.clock.move(15 * time.Second)
	if got := statusOf(t, p); got != "online" {
		t.Errorf("after three intervals: %v", got)
	}
	p.clock.move(time.Millisecond)
	if got := statusOf(t, p); got != "offline" {
		t.Errorf("after more than three intervals: %v", got)
	}
	got := p.want(t, 200, "POST", "/agents/a/heartbeat", "").json(t)
	if got["ok"] != true || statusOf(t, p) != "online" {
		t.Errorf("not back: %v", got)
	}
	agent := p.want(t, 200, "GET", "/agents", "").list(t)[0]
	if agent["load"].(map[string]any)["running"] != 2.0 || agent["capabilities"].(map[string]any)["max_concurrency"] != 3.0 {
		t.Errorf("load and capabilities of the heartbeat: %v", agent)
	}
	p.want(t, 404, "POST", "/agents/stranger/heartbeat", "{}")
}

func TestAnAgentWhoseHeartbeatWaitsIsAlive(t *testing.T) {
	t.Parallel()
	p := ready(t)
	p.want(t, 200, "POST", "/agents/a/heartbeat", `{"interval_sec":0.1}`)
	got := make(chan answer)
	go func() { got <- p.do(t, "POST", "/agents/a/heartbeat", `{"wait_sec":60}`) }()
	waitFor(t, func() bool { return waitingHeartbeats(t, p) == "1" })
	for range 3 {
		p.clock.move(time.Second)
		waitFor(t, func() bool { return statusOf(t, p) == "online" })
	}
	// So a command reaches it.
	waitFor(t, func() bool { return p.do(t, "POST", "/sync/push", order).status == 200 })
	if cmds := (<-got).json(t)["commands"].([]any); len(cmds) != 1 {
		t.Errorf("commands: %v", cmds)
	}
	p.clock.move(time.Second)
	if got := statusOf(t, p); got != "offline" {
		t.Errorf("silent afterwards: %v", got)
	}
}

func TestAnOutageOfTheControlPlaneIsNotTheAgentsSilence(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, name := range []string{"alive", "dead"} {
		p.want(t, 201, "POST", "/agents", `{"name":"`+name+`"}`)
		p.want(t, 200, "POST", "/agents/"+name+"/heartbeat", "")
	}
	p.clock.move(25 * time.Second)
	p.want(t, 200, "POST", "/agents/alive/heartbeat", "")
	p.clock.move(6 * time.Second)
	if err := p.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Close()
	p.clock.move(time.Hour)
	again := launch(t, p.cfg, p.clock)
	statuses := func() string {
		l := again.want(t, 200, "GET", "/agents", "").list(t)
		return fmt.Sprint(l[0]["status"], " ", l[1]["status"])
	}
	if got := statuses(); got != "online offline" {
		t.Errorf("right after the restart: %s", got)
	}
	p.clock.move(31 * time.Second)
	if got := statuses(); got != "offline offline" {
		t.Errorf("silent since the restart: %s", got)
	}
}
