package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

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
	return http.DefaultTransport.RoundTrip(r)
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
	p, err := memory.New(memory.Config{Project: "garden", Node: c.Node, DB: c.DB, Bucket: b, ForcePush: true, Progress: func(string) { m.pass() }})
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

// A push that is killed at any moment leaves the memory before it or its own, whole,
// and the next push goes through.
func TestAKilledPushLeavesAWholeMemory(t *testing.T) {
	t.Parallel()
	config := miniotest.Start(t).Bucket()
	b, err := objects.Open(config)
	if err == nil {
		err = b.Probe(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	one, reader := newNode(t, b, "one", force), newNode(t, b, "reader")
	one.write("start")
	one.push()
	known := one.observations()
	kills := 0
	for at := 1; ; at++ {
		one.write(fmt.Sprint("before kill ", at))
		latest := one.observations()
		killed, _ := child{Bucket: config, Node: "one", DB: one.DB, KillAt: at}.run(t)
		reader.pull()
		if got := fmt.Sprint(reader.observations()); got != fmt.Sprint(latest) && (got != fmt.Sprint(known) || !killed) {
			t.Fatalf("killed at moment %d: the memory is %s", at, got)
		}
		known = reader.observations()
		if !killed {
			break
		}
		kills++
	}
	if kills < 30 {
		t.Fatalf("only %d moments to be killed at", kills)
	}
	one.Doctor(t.Context(), true)
	one.push()
	reader.pull()
	reader.want(one.observations()...)
	t.Logf("killed at %d moments", kills)
}

func force(c *memory.Config) { c.ForcePush = true }

// A pull that is killed at any moment leaves the old database or the new one, whole,
// and every safety backup that is there is whole.
func TestAKilledPullLeavesAWholeDatabase(t *testing.T) {
	t.Parallel()
	config := miniotest.Start(t).Bucket()
	b, err := objects.Open(config)
	if err == nil {
		err = b.Probe(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("start")
	one.push()
	kills := 0
	for at := 1; ; at++ {
		one.write(fmt.Sprint("pushed ", at))
		one.push()
		two.write(fmt.Sprint("local ", at))
		before, after := fmt.Sprint(two.observations()), fmt.Sprint(one.observations())
		killed, _ := child{Bucket: config, Node: "two", DB: two.DB, Pull: true, KillAt: at}.run(t)
		if got := fmt.Sprint(two.observations()); got != after && (got != before || !killed) {
			t.Fatalf("killed at moment %d: the database has %s", at, got)
		}
		wholeBackups(t, b, two)
		if !killed {
			break
		}
		kills++
	}
	if kills < 8 {
		t.Fatalf("only %d moments to be killed at", kills)
	}
	two.pull()
	two.want(one.observations()...)
	t.Logf("killed at %d moments", kills)
}

func wholeBackups(t *testing.T, b *objects.Bucket, n *node) {
	t.Helper()
	folders, err := n.Backups()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		p, err := memory.New(memory.Config{Project: "garden", Node: "x", DB: folder + "/claude-mem.db", Bucket: b})
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.Status(t.Context())
		if err != nil || s.Local == nil || s.Local.Damage != "" {
			t.Fatalf("backup %s: %+v %v", folder, s.Local, err)
		}
	}
}
