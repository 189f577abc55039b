package pgtest_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/pgtest"
)

const childEnv = "BLOOM_PGTEST_CHILD"

func connect(t *testing.T, url string) (*pgx.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return pgx.Connect(ctx, url)
}

func TestEachTestGetsAnEmptyDatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	urls := []string{pgtest.Start(t), pgtest.Start(t)}
	for _, url := range urls {
		conn, err := connect(t, url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE mine (n int)"); err != nil {
			t.Fatalf("not empty: %v", err)
		}
		conn.Close(t.Context())
	}
}

// TestChild is the killed process of the next test; alone it does nothing.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("only run by TestServerDoesNotSurviveAKilledTest")
	}
	url := pgtest.Start(t)
	os.Stdout.WriteString("URL " + url + "\n")
	select {}
}

func TestServerDoesNotSurviveAKilledTest(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var url string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "URL "); ok {
			url = rest
			break
		}
	}
	conn, err := connect(t, url)
	if err != nil {
		t.Fatalf("the child's server does not answer: %v", err)
	}
	conn.Close(t.Context())

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	deadline := time.After(time.Minute)
	for {
		conn, err := connect(t, url)
		if err != nil {
			return
		}
		conn.Close(t.Context())
		select {
		case <-deadline:
			t.Fatal("the server still answers 20 s after its test was killed")
		case <-time.After(50 * time.Millisecond):
		}
	}
}
