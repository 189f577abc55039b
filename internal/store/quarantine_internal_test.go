package store

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestAFullQuarantineTakesNewRows fills a quarantine of which nobody asks for a list, as on
// a server that does not lead.
func TestAFullQuarantineTakesNewRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := quarantine{until: map[quarantineKey]time.Time{}}
		for i := range quarantineMax {
			b.add(notGiven, fmt.Sprint(i))
		}
		if b.add(notGiven, "too many"); b.has(notGiven, "too many") {
			t.Error("the quarantine has no limit")
		}
		time.Sleep(quarantineTime + time.Second)
		if b.add(notGiven, "new"); !b.has(notGiven, "new") {
			t.Error("rows whose time is over leave no room")
		}
	})
}
