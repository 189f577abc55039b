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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// childEnv makes the test binary push or pull in a separate process, which kills itself at one of
// its steps.
const childEnv = "BLOOM_MEMORY_TEST_CHILD"

// child describes what such a process does.
type child struct {
	Bucket   objects.Config
	Node, DB string
	Pull     bool
	// KillAt is the number of the moment at which it kills itself: before and after each request to
	// the storage, and at each step that it announces. 0 means never.
	KillAt int
	// KillPoint is the name of a step after which it kills itself, if not empty.
	KillPoint string
	// Measure makes it print its VmHWM in KiB instead of the number of moments.
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
		die()
	}
}

func die() {
	p, _ := os.FindProcess(os.Getpid())
	_ = p.Kill()
	select {} // the signal arrives asynchronously
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

// counted passes a moment with each mebibyte of a response.
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
	p, err := memory.New(memory.Config{Project: "garden", Node: c.Node, DB: c.DB, Bucket: b, Point: func(name string) {
		if name == c.KillPoint {
			die()
		}
		m.pass()
	}})
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

// run reports whether the process was killed, otherwise how many moments it passed.
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

// rows is how many observations the nodes start with: somewhat more than are copied in one step, or
// 50,000.
var rows = map[bool]int{false: 12_000, true: 50_000}[os.Getenv(fullKills) != ""]

// leastKills is the minimum number of moments at which a push or pull is killed; a small memory
// passes fewer.
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

// writing makes the plugin write until stop, which returns the acknowledged texts.
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
