package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestTwoFirstTurnsOfAContextFollowEachOther ends a first turn while another replica has written
// the context's first transcript and working folder, but not committed them: there is no row to
// lock.
func TestTwoFirstTurnsOfAContextFollowEachOther(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	r := &replicas{t: t, own: open(t, url, nil)}
	register(t, r.own, "w", 1)
	task, lease := r.leased("w")
	other, watcher := connect(t, url), connect(t, url)
	done := make(chan error, 1)
	err := pgx.BeginFunc(t.Context(), other, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `INSERT INTO transcripts (context_id, folder, updated_at, size, session_id, sha256, parts, workspace, workspace_size)
			VALUES ('context', $1, 1, 1, 'first', 'one', '[{"url":"file:first"}]', '{"size":1,"sha256":"w","parts":[{"url":"file:folder"}]}', 1)`, contract.TranscriptFolder("context")); err != nil {
			return err
		}
		go func() {
			c := storetest.Success(task, lease)
			c.ContextID = "context"
			c.Completion.Transcript = &bloom.TranscriptUpdate{SessionID: "second", Size: 1, SHA256: "two", Parts: []bloom.TranscriptPart{{URL: "file:second"}}}
			_, err := r.own.Complete(t.Context(), c)
			done <- err
		}()
		untilOne(t, watcher, `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE NOT granted AND locktype = 'transactionid' AND datname = current_database())`)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	kept, err := r.own.Transcript(t.Context(), "context")
	if err != nil || kept == nil || kept.SessionID != "second" || kept.Workspace == nil || kept.Workspace.SHA256 != "w" {
		t.Errorf("the transcript is %+v, %v; want the second one and the first one's working folder", kept, err)
	}
	removed, err := r.own.RemovedContent(t.Context(), 0, 10)
	if err != nil || len(removed) != 1 || removed[0].URL != "file:first" {
		t.Errorf("to delete is %+v, %v; want the first transcript", removed, err)
	}
}

// TestForgottenContextsAppearInTheOrderOfTheirNumbers delays one replica's commit while another one
// forgets a context, too. A worker asks only for numbers above those it has seen.
func TestForgottenContextsAppearInTheOrderOfTheirNumbers(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	first, second := open(t, url, nil), open(t, url, nil)
	for _, id := range []string{"first", "second"} {
		task, _, err := first.CreateTask(t.Context(), storetest.Plain(id))
		if err == nil {
			_, err = first.Cancel(t.Context(), task.ID, "test")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	holder, watcher := connect(t, url), connect(t, url)
	if _, err := holder.Exec(t.Context(), `CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.context_id = 'first' THEN PERFORM set_config('lock_timeout', '0', true); PERFORM pg_advisory_xact_lock(42); END IF;
			RETURN NEW; END $$;
		CREATE TRIGGER late AFTER INSERT ON forgotten_contexts FOR EACH ROW EXECUTE FUNCTION late();
		SELECT pg_advisory_lock(42)`); err != nil {
		t.Fatal(err)
	}
	forget := func(s *postgres.Store, id string) chan error {
		done := make(chan error, 1)
		go func() { done <- s.ForgetContext(context.WithoutCancel(t.Context()), id, "test") }()
		return done
	}
	one := forget(first, "first")
	untilOne(t, watcher, `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE NOT granted AND locktype = 'advisory' AND objid = 42 AND datname = current_database())`)
	two := forget(second, "second")
	untilOne(t, watcher, `SELECT EXISTS (SELECT FROM forgotten_contexts)
		OR (SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE NOT granted AND locktype = 'advisory' AND datname = current_database()) = 2`)
	seen, err := first.Forgotten(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_unlock(42)`); err != nil {
		t.Fatal(err)
	}
	for _, done := range []chan error{one, two} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	last := int64(0)
	for _, x := range seen {
		last = x.Seq
	}
	rest, err := first.Forgotten(t.Context(), last, 10)
	if err != nil || len(seen)+len(rest) != 2 {
		t.Errorf("after %+v appear %+v, %v; want all of both", seen, rest, err)
	}
}
