package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// childEnv makes the test binary push or pull as a process of its own, which kills
// itself at one of its steps.
const childEnv = "BLOOM_MEMORY_TEST_CHILD"

// child is what such a process does.
type child struct {
	Bucket   objects.Config
	Node, DB string
	Pull     bool
	// KillAt is the number of the moment at which it dies: before and after each
	// request to the storage, and at each step it announces. 0 is never.
	KillAt int
	// Measure makes it print its VmHWM in KiB in place of the moments it had.
	Measure bool
}

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(runChild(spec))
	}
	os.Exit(m.Run())
}

type moments struct{ at, left int }

func (m *moments) pass() {
	m.at++
	if m.left--; m.left == 0 {
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {} // the signal is on its way
	}
}

func (m *moments) RoundTrip(r *http.Request) (*http.Response, error) {
	m.pass()
	defer m.pass()
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		res.Body = &counted{ReadCloser: res.Body, m: m}
	}
	return res, err
}

// counted passes a moment with each mebibyte of an answer.
type counted struct {
	io.ReadCloser
	m    *moments
	read int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if (c.read+n)>>20 > c.read>>20 {
		c.m.pass()
	}
	c.read += n
	return n, err
}

func runChild(spec string) int {
	var c child
	if err := json.Unmarshal([]byte(spec), &c); err != nil {
		return 2
	}
	m := &moments{left: c.KillAt}
	c.Bucket.Transport = m
	b, err := objects.Open(c.Bucket)
	if err != nil {
		return 2
	}
	p, err := memory.New(memory.Config{Project: "garden", Node: c.Node, DB: c.DB, Bucket: b, Point: func(string) { m.pass() }})
	if err != nil {
		return 2
	}
	if c.Pull {
		_, err = p.Pull(context.Background())
	} else {
		_, err = p.Push(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if c.Measure {
		m.at = highWater()
	}
	fmt.Println(m.at)
	return 0
}

// run reports whether the process was killed, and else how many moments it has had.
func (c child) run(t *testing.T) (killed bool, had int) {
	t.Helper()
	spec, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(spec))
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == -1:
		return true, 0
	case err != nil:
		t.Fatalf("%+v: %v: %s", c, err, &failure)
	}
	if _, err := fmt.Sscan(string(out), &had); err != nil {
		t.Fatal(err)
	}
	return false, had
}

// fullKills makes the memories of these tests as large as real ones.
const fullKills = "BLOOM_TEST_FULL_KILLS"

// rows is how many observations the nodes have to begin with: some more than are copied in
// one step, or 50,000.
var rows = map[bool]int{false: 12_000, true: 50_000}[os.Getenv(fullKills) != ""]

// leastKills is at how many moments a push or pull is killed at least; a small memory passes
// fewer.
var leastKills = map[bool]int{false: 25, true: 30}[os.Getenv(fullKills) != ""]

// fill gives the node a large memory.
func (n *node) fill() {
	n.t.Helper()
	n.write()
	_, err := n.plugin().ExecContext(n.t.Context(), `WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?)
		INSERT INTO observations (text) SELECT 'an observation of ' || hex(randomblob(30)) || n FROM i`, rows)
	if err != nil {
		n.t.Fatal(err)
	}
}

// writing has the plugin write until stop, which returns what it was told is written.
func (n *node) writing(name string) (stop func() []string) {
	n.t.Helper()
	db := n.plugin()
	ctx, cancel := context.WithCancel(n.t.Context())
	var all sync.WaitGroup
	var written []string
	began := make(chan struct{})
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			text := fmt.Sprint(name, " ", i)
			if _, err := db.ExecContext(n.t.Context(), "INSERT INTO observations (text) VALUES (?)", text); err != nil {
				n.t.Errorf("the plugin cannot write: %v", err)
				break
			}
			written = append(written, text)
			if i == 0 {
				close(began)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	<-began
	return func() []string {
		cancel()
		all.Wait()
		return written
	}
}

// state is what the doctor may find after a kill, and what it says of it.
type state struct{ name, detail, fix string }

// examine wants the doctor to explain and repair whatever it finds, and notes what that
// was.
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
		if !f.OK && !strings.Contains(f.Fix, "does it again") && f.Name != "leadership" {
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

// A push that is killed at any moment, while the plugin writes, leaves the memory before
// it or its own, whole; the doctor explains what it left, and the next push goes through.
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
		if at%2 == 0 { // else the next push finds what this one has left
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

// A pull that is killed at any moment, while the plugin writes, leaves the old database
// or the new one, whole. Everything that the plugin wrote is there or in a safety backup.
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
		{"leftovers", "half a safety backup .half-", "--repair"},
		{"last pull", "killed after its safety backup", "does it again"},
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

// A first pull that is killed at any moment leaves no database, or the new one.
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

// lostNothing wants each text in the database or in a backup that was made since.
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
