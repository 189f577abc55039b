package cli_test

import (
	"testing"

	"github.com/bloom-runtime/bloom"
)

// TestALargeOutputIsKeptWholeOrFails runs a claude with a long answer: the maximum size of a
// completion is stored completely; more fails.
func TestALargeOutputIsKeptWholeOrFails(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker")
	s.start(s.defaults(scene{})...)
	task := s.finished("MIB 26")
	_, output, err := s.api().TaskOutput(t.Context(), task.ID)
	if err != nil || task.Status != bloom.TaskCompleted || len(output) != 26<<20 {
		t.Errorf("26 MiB: %s, %d bytes, %v", task.Status, len(output), err)
	}
	task = s.awaited(s.submitIn("another", "MIB 36")) // without a summary of the other task before it
	if task.Status != bloom.TaskFailed || *task.ErrorClass != bloom.ClassOutputInvalid {
		t.Errorf("36 MiB: %s, %v", task.Status, task.ErrorClass)
	}
}
