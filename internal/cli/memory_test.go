package cli_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the memory plugin's database

	"github.com/bloom-runtime/bloom/internal/miniotest"
)

func TestMemoryMovesBetweenNodes(t *testing.T) {
	t.Parallel()
	storage := miniotest.Shared(t).Bucket()
	node := func(name string) *person {
		p := newPerson(t, nil)
		p.env["MINIO_ENDPOINT"], p.env["MINIO_BUCKET"] = "http://"+storage.Endpoint, storage.Bucket
		p.env["MINIO_ACCESS_KEY"], p.env["MINIO_SECRET_KEY"] = storage.AccessKey, storage.SecretKey
		p.env["CLAUDE_PROJECT_ID"], p.env["MEMBRIDGE_NODE_ID"] = "garden", name
		p.env["CLAUDE_MEM_DB"] = filepath.Join(t.TempDir(), "claude-mem.db")
		return p
	}
	one, two := node("one"), node("two")
	wantRun(t, two.run("memory", "pull"), 1, "nothing has been pushed")
	wantRun(t, two.run("memory", "status"), 0, "nothing yet")
	observe(t, one.env["CLAUDE_MEM_DB"])
	wantRun(t, one.run("memory", "push"), 0, "1 observation")
	wantRun(t, one.run("memory", "push"), 0, "unchanged")
	wantRun(t, two.run("memory", "pull"), 0, "pushed by one")
	wantRun(t, two.run("memory", "pull"), 0, "up to date")
	observe(t, two.env["CLAUDE_MEM_DB"])
	wantRun(t, two.run("memory", "push"), 3, "only one, the primary")
	two.env["ALLOW_SECONDARY_PUSH"] = "1"
	wantRun(t, two.run("memory", "push"), 0, "2 observations")
	wantRun(t, one.run("memory", "pull"), 2, "ALLOW_PRIMARY_PULL_OVERRIDE")
	wantRun(t, one.run("memory", "leadership"), 0, "one is primary, epoch 1")
	wantRun(t, one.run("memory", "leadership", "--select", "two"), 0, "two is primary, epoch 2")
	wantRun(t, one.run("memory", "pull"), 0, "pulled")
	wantRun(t, one.run("memory", "doctor"), 0, "No problems found")
	one.env["MINIO_ENDPOINT"] = "minio.lan/path"
	one.env["MINIO_SECRET_KEY"] = "wrong-secret"
	wantRun(t, one.run("memory", "status"), 1, "")
}

// A name taken from the folder would overwrite another project's memory.
func TestMemoryAsksForTheProject(t *testing.T) {
	t.Parallel()
	storage := miniotest.Shared(t).Bucket()
	p := newPerson(t, nil)
	p.env["MINIO_ENDPOINT"], p.env["MINIO_BUCKET"] = "http://"+storage.Endpoint, storage.Bucket
	p.env["MINIO_ACCESS_KEY"], p.env["MINIO_SECRET_KEY"] = storage.AccessKey, storage.SecretKey
	p.env["CLAUDE_MEM_DB"] = filepath.Join(t.TempDir(), "claude-mem.db")
	observe(t, p.env["CLAUDE_MEM_DB"])
	wantRun(t, p.run("memory", "push"), 2, "--project is missing")
	wantRun(t, p.run("memory", "agent"), 2, "--project is missing")
	p.terminal = true
	wantRun(t, p.run("memory", "push"), 2, "--project is missing") // nobody answers
	for answer, project := range map[string]string{"garden\n": "garden: pushed", "\n": "cli: pushed"} {
		p.in = answer
		wantRun(t, p.run("memory", "push"), 0, project)
	}
}

func wantRun(t *testing.T, got outcome, code int, text string) {
	t.Helper()
	if got.code != code || !strings.Contains(got.out+got.err, text) {
		t.Fatalf("exit %d, not %d with %q: %s%s", got.code, code, text, got.out, got.err)
	}
	if strings.Contains(got.out+got.err, "minio-test-secret") {
		t.Fatalf("shows the secret key: %s%s", got.out, got.err)
	}
}

// observe writes as the memory plugin would; it waits while a push or pull has the database locked.
func observe(t testing.TB, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE TABLE IF NOT EXISTS observations (id INTEGER PRIMARY KEY, text TEXT)", "INSERT INTO observations (text) VALUES ('x')"} {
		if _, execErr := db.ExecContext(t.Context(), statement); execErr != nil {
			err = errors.Join(err, execErr)
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// observations counts what the memory plugin would find; 0 without a database.
func observations(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(15000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_ = db.QueryRowContext(t.Context(), "SELECT count(*) FROM observations").Scan(&n)
	return n
}
