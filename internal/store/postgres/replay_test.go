package postgres_test

import (
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestTranscriptsWhoseCommitIsLostAreAddedOnce loses the response to the commit that adds a
// transcript. The caller would delete the upload of a refused transcript.
func TestTranscriptsWhoseCommitIsLostAreAddedOnce(t *testing.T) {
	t.Parallel()
	address := migrated.Start(t)
	cut, through := startCutter(t, address)
	r := &replicas{t: t, own: open(t, through, nil)}
	register(t, r.own, "w", 1)
	task, lease := r.leased("w")
	if _, err := r.own.Complete(t.Context(), storetest.Success(task, lease)); err != nil {
		t.Fatal(err)
	}
	events, err := r.own.Events(t.Context(), task, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1].Seq
	n := contract.NewArtifact{ID: schema.NewID(1), TaskID: task, Epoch: 1, Path: bloom.RunLogPath(1, last), Type: bloom.ArtifactRunLog,
		Tags: []string{}, MediaType: "application/gzip", URL: "file:artifacts/the-upload", Size: 3, SHA256: "s"}
	cut.deliver.Store(true)
	cut.dropAt.Store(&n.URL)
	answer := make(chan error, 1)
	go func() {
		answer <- r.own.AddRunLogs(t.Context(), contract.AddRunLogs{TaskID: task, To: last, Artifacts: []contract.NewArtifact{n}})
	}()
	<-cut.dropped
	untilOne(t, connect(t, address), `SELECT EXISTS (SELECT FROM runtime_artifacts WHERE url = '`+n.URL+`')`)
	cut.redirect(t, address)
	if err := <-answer; err != nil {
		t.Errorf("the transcript that was added is refused: %v", err)
	}
	if a, err := r.own.Artifact(t.Context(), n.ID); err != nil || a.Path != n.Path {
		t.Errorf("the transcript is %+v, %v", a, err)
	}
	if err := storetest.CheckInvariants(t.Context(), r.own); err != nil {
		t.Error(err)
	}
}
