package memory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// state is a possible finding of the doctor after a kill.
type state struct{ name, detail, fix string }

// examine expects the doctor to explain and repair whatever it finds, and records what that was.
func (n *node) examine(t *testing.T, at int, states []state, seen map[state]int) {
	t.Helper()
	for _, f := range n.Doctor(t.Context(), false) {
		if f.OK && !f.Note {
			continue
		}
		known := false
		for _, s := range states {
			if s.name == f.Name && strings.Contains(f.Detail, s.detail) && strings.Contains(f.Fix, s.fix) {
				known = true
				seen[s]++
			}
		}
		if !known {
			t.Fatalf("killed at moment %d: %s: %s; %s", at, f.Name, f.Detail, f.Fix)
		}
	}
	for _, f := range n.Doctor(t.Context(), true) {
		if !f.OK && !strings.Contains(f.Fix, "to repeat it") && f.Name != "leadership" {
			t.Fatalf("killed at moment %d, after the repair: %s: %s; %s", at, f.Name, f.Detail, f.Fix)
		}
	}
}

func allSeen(t *testing.T, states []state, seen map[state]int) {
	t.Helper()
	for _, s := range states {
		if seen[s] == 0 {
			t.Errorf("no kill left this: %+v", s)
		}
	}
}

var nobodyChose = state{"leadership", "nobody chose it", "--select"}

// A push that is killed at any moment, while the plugin writes, leaves either the previous memory
// or its own, complete; the doctor explains what it left, and the next push succeeds.
func TestAKilledPushLeavesAWholeMemory(t *testing.T) {
	t.Parallel()
	config := miniotest.Shared(t).Bucket()
	b, err := objects.Open(config)
	if err == nil {
		err = b.Probe(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	states := []state{
		nobodyChose,
		{"leftovers", "a snapshot .bloom-memory-snapshot-", "--repair"},
		{"lock", "left by a push of one that began", "the next push takes it over"},
		{"uploads", " uploads (", "the next push removes them"},
		{"stored memory", "tools that read claude-mem.db see another one", "push again"},
	}
	seen := map[state]int{}
	one, reader := newNode(t, b, "one"), newNode(t, b, "reader")
	one.fill()
	one.push()
	reader.pull()
	known, kills := rows, 0
	for at := 1; ; at++ {
		one.write(fmt.Sprint("before kill ", at))
		least := len(one.observations())
		stop := one.writing(fmt.Sprint("during kill ", at))
		killed, _ := child{Bucket: config, Node: "one", DB: one.DB, KillAt: at}.run(t)
		stop()
		all := one.observations()
		reader.pull()
		got := reader.observations()
		if !slices.Equal(got, all[:min(len(got), len(all))]) || len(got) < least && (len(got) != known || !killed) {
			t.Fatalf("killed at moment %d: the memory has %d observations, not %d or at least %d", at, len(got), known, least)
		}
		known = len(got)
		if !killed {
			break
		}
		kills++
		if at%2 == 0 { // otherwise the next push finds what this one has left
			one.examine(t, at, states, seen)
		}
	}
	if kills < leastKills {
		t.Fatalf("only %d moments to be killed at", kills)
	}
	allSeen(t, states, seen)
	one.push()
	reader.pull()
	reader.want(one.observations()...)
	t.Logf("killed at %d moments; the doctor explained %v", kills, seen)
}

// A primary whose push was killed before or after the storage accepted the manifest still pushes
// what the plugin has written since, even on its first push.
func TestThePrimaryPushesAfterALostAnswer(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"push recorded, manifest not written", "manifest written"} {
		for name, pushed := range map[string]bool{"first push": false, "later push": true} {
			t.Run(name+", "+point, func(t *testing.T) {
				t.Parallel()
				config := miniotest.Shared(t).Bucket()
				b, err := objects.Open(config)
				if err != nil {
					t.Fatal(err)
				}
				one, reader := newNode(t, b, "one"), newNode(t, b, "reader")
				one.write("a")
				if pushed {
					one.push()
				}
				for _, text := range []string{"b", "c"} { // two in a row
					one.write(text)
					if killed, _ := (child{Bucket: config, Node: "one", DB: one.DB, KillPoint: point}).run(t); !killed {
						t.Fatalf("the push of %s was not killed", text)
					}
				}
				one.write("d")
				out, err := (&memory.Syncer{Project: one.Project}).Sync(t.Context())
				if err != nil || out.Pushed == nil {
					t.Fatalf("after the lost answer the primary did %+v (%v)", out, err)
				}
				reader.pull()
				reader.want("a", "b", "c", "d")
			})
		}
	}
}

// A pull that is killed at any moment, while the plugin writes, leaves either the old database or
// the new one, complete. Everything that the plugin wrote is in it or in a safety backup.
func TestAKilledPullLeavesAWholeDatabase(t *testing.T) {
	t.Parallel()
	config := miniotest.Shared(t).Bucket()
	b, err := objects.Open(config)
	if err == nil {
		err = b.Probe(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	states := []state{
		nobodyChose,
		{"leftovers", "a snapshot .bloom-memory-snapshot-", "--repair"},
		{"leftovers", "a download .bloom-memory-pull-", "--repair"},
		{"leftovers", "an incomplete safety backup .half-", "--repair"},
		{"last pull", "killed after its safety backup", "to repeat it"},
	}
	seen := map[state]int{}
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.fill()
	one.push()
	two.fill()
	kills := 0
	for at := 1; ; at++ {
		one.write(fmt.Sprint("pushed ", at))
		one.push()
		before, folders := two.observations(), two.folders()
		stop := two.writing(fmt.Sprint("local ", at))
		killed, _ := child{Bucket: config, Node: "two", DB: two.DB, Pull: true, KillAt: at}.run(t)
		written := stop()
		two.lostNothing(t, at, append(before, written...), folders)
		if !killed {
			break
		}
		kills++
		two.examine(t, at, states, seen)
	}
	if kills < leastKills {
		t.Fatalf("only %d moments to be killed at", kills)
	}
	allSeen(t, states, seen)
	two.pull()
	two.want(one.observations()...)
	t.Logf("killed at %d moments; the doctor explained %v", kills, seen)
}

func (n *node) folders() []string {
	n.t.Helper()
	folders, err := n.Backups()
	if err != nil {
		n.t.Fatal(err)
	}
	return folders
}

// A first pull that is killed at any moment leaves either no database or the new one.
func TestAKilledFirstPullLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	config := miniotest.Shared(t).Bucket()
	b, err := objects.Open(config)
	if err == nil {
		err = b.Probe(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	one := newNode(t, b, "one")
	one.fill()
	one.push()
	for at := 1; ; at++ {
		two := newNode(t, b, "two")
		killed, _ := child{Bucket: config, Node: "two", DB: two.DB, Pull: true, KillAt: at}.run(t)
		two.examine(t, at, []state{nobodyChose, {"leftovers", "a download .bloom-memory-pull-", "--repair"}}, map[state]int{})
		if _, err := os.Stat(two.DB); err == nil {
			two.want(one.observations()...)
		} else if !killed {
			t.Fatal(err)
		}
		two.pull()
		two.want(one.observations()...)
		two.db.Close()
		if !killed {
			t.Logf("killed at %d moments", at-1)
			return
		}
	}
}

// lostNothing expects each text in the database or in a backup that was made since.
func (n *node) lostNothing(t *testing.T, at int, texts, before []string) {
	t.Helper()
	there := map[string]bool{}
	note := func(texts []string) {
		for _, text := range texts {
			there[text] = true
		}
	}
	note(n.observations())
	for _, folder := range n.folders() {
		if slices.Contains(before, folder) {
			continue
		}
		kept := &node{Project: &memory.Project{Config: memory.Config{DB: filepath.Join(folder, "claude-mem.db")}}, t: t}
		note(kept.observations())
		kept.db.Close()
	}
	for _, text := range texts {
		if !there[text] {
			t.Fatalf("killed at moment %d: %q is lost", at, text)
		}
	}
}
