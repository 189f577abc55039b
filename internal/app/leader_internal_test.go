package app

import (
	"context"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

// TestAFollowerDoesNotAskAtEveryRun, because each attempt to become the leader opens a connection.
func TestAFollowerDoesNotAskAtEveryRun(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	if _, err := postgres.MigrateUp(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	inherited := 0
	first := &leader{store: s, pause: time.Hour}
	second := &leader{store: s, pause: time.Hour, inherited: func() { inherited++ }}
	defer second.close()
	leads := func(l *leader, want bool) {
		t.Helper()
		if is, err := l.mine(t.Context()); err != nil || is != want {
			t.Fatalf("leads: %v, %v; want %v", is, err, want)
		}
	}
	leads(first, true)
	leads(second, false)
	cut, cancel := context.WithCancel(t.Context())
	cancel() // the loop that asks was restarted
	if is, err := first.mine(cut); err != nil || !is || !first.held() {
		t.Errorf("a restarted loop gave up the leadership: %v, %v", is, err)
	}
	first.close()
	leads(second, false) // cached
	second.askAt = time.Now()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the database may release the lock a moment after the connection has ended
		if is, err := second.mine(t.Context()); err != nil {
			t.Fatal(err)
		} else if is {
			break
		} else if time.Now().After(end) {
			t.Fatal("the lock was not released")
		}
		second.askAt = time.Now()
	}
	if inherited != 1 {
		t.Errorf("the loops were notified %d times", inherited)
	}
}
