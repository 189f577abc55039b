package claude_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bloom-runtime/bloom/internal/claude"
)

func TestWhatIsKeptFitsHowContextsAreUsed(t *testing.T) {
	t.Parallel()
	const turns, room = 3000, 7
	random := rand.New(rand.NewPCG(1, 2))
	next, live := 0, map[int]int{} // the conversations that go on, and how many turns each has left
	for name, use := range map[string]struct {
		context func(i int) int
		least   float64 // the share of turns that find their process
	}{
		"more contexts in turn than processes": {func(i int) int { return i % 30 }, 0.18},
		"a few more":                           {func(i int) int { return i % 9 }, 0.7},
		"conversations of ten turns": {func(int) int {
			for len(live) < 6 {
				next++
				live[next] = 10
			}
			pick := random.IntN(len(live))
			for id := range next + 1 {
				if live[id] == 0 {
					continue
				}
				if pick--; pick < 0 {
					if live[id]--; live[id] == 0 {
						delete(live, id)
					}
					return id
				}
			}
			panic("unreachable")
		}, 0.8},
	} {
		var all []string
		for i := range turns {
			all = append(all, fmt.Sprint(use.context(i)))
		}
		if share := float64(claude.Reuses(all, room)) / turns; share < use.least {
			t.Errorf("%s: %.2f of the turns find their process, want %.2f", name, share, use.least)
		}
	}
}
