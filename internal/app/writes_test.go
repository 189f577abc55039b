package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/problems"
)

// A database that answers but refuses writes, for example because the disk is full, is reported as
// a problem for as long as that lasts.
func TestADatabaseThatRefusesWritesIsAProblem(t *testing.T) {
	t.Parallel()
	var database string
	r, _ := twoReplicas(t, func(c *config.Server) { database = string(c.DatabaseURL) })
	db, err := pgx.Connect(t.Context(), database)
	must(t, err)
	defer db.Close(t.Context())
	const bearer = "Authorization: Bearer " + key
	until := func(what string, status int, problem bool, writable string) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); ; {
			res, text := r.ask(http.MethodPost, "/api/runtime/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p"}`, bearer)
			var found bloom.Problems
			r.wants(http.StatusOK, &found, http.MethodGet, "/api/runtime/problems", "", bearer)
			shown := false
			for _, p := range found.Problems {
				shown = shown || p.Code == problems.CodeWrites && strings.Contains(p.Action, "disk that holds the database is full")
			}
			_, metrics := r.ask(http.MethodGet, "/metrics", "", bearer)
			if res.StatusCode == status && shown == problem && strings.Contains(metrics, "\nbloom_store_writable "+writable+"\n") {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("%s: %d %s, problem %v: %+v", what, res.StatusCode, text, shown, found)
			}
		}
	}
	until("well", http.StatusCreated, false, "1")
	_, err = db.Exec(t.Context(), `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END$$;
		CREATE TRIGGER full_disk BEFORE INSERT ON llm_tasks EXECUTE FUNCTION full_disk()`)
	must(t, err)
	until("full", http.StatusServiceUnavailable, true, "0")
	_, err = db.Exec(t.Context(), `DROP TRIGGER full_disk ON llm_tasks`)
	must(t, err)
	until("well again", http.StatusCreated, false, "1")
}
