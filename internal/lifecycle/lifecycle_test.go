package lifecycle_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

const now = int64(1_800_000_000_000)

// move is one transition, without its condition.
type move struct {
	From bloom.TaskStatus
	Op   lifecycle.Operation
	To   bloom.TaskStatus
}

// situation is one combination of all inputs of the rules.
type situation struct {
	task  bloom.TaskState
	lease bloom.Lease
}

func (s situation) String() string {
	return fmt.Sprintf("%s attempts %d/%d cancel=%t, lease %s epoch %d of %d",
		s.task.Status, s.task.Attempts, s.task.MaxAttempts, s.task.CancelRequested, s.lease.Status, s.lease.Epoch, s.task.Epoch)
}

// situations returns all combinations, including unreachable ones, which the rules must refuse.
func situations() []situation {
	var all []situation
	for _, status := range bloom.TaskStatuses {
		for _, attempts := range []int{1, 3} {
			for _, cancel := range []bool{false, true} {
				for _, leaseStatus := range []bloom.LeaseStatus{bloom.LeaseActive, bloom.LeaseExpired, bloom.LeaseReleased, bloom.LeaseFailed} {
					for _, leaseEpoch := range []int64{6, 7} {
						all = append(all, newSituation(status, attempts, cancel, leaseStatus, leaseEpoch))
					}
				}
			}
		}
	}
	return all
}

func newSituation(status bloom.TaskStatus, attempts int, cancel bool, leaseStatus bloom.LeaseStatus, leaseEpoch int64) situation {
	lease := bloom.Lease{
		ID: fmt.Sprintf("lease-%d", leaseEpoch), TaskID: "task", WorkerID: "worker", StartedAt: now - 1000, ExpiresAt: now,
		TTLSeconds: 60, Status: leaseStatus, LastHeartbeat: now - 1000, Epoch: leaseEpoch,
	}
	task := bloom.TaskState{Status: status, Attempts: attempts, MaxAttempts: 3, Epoch: 7, CancelRequested: cancel, RunAt: now - 5000}
	if status != bloom.TaskQueued {
		current, worker := "lease-7", "worker"
		task.LeaseID, task.WorkerID = &current, &worker
	}
	return situation{task: task, lease: lease}
}

func completion(outcome bloom.Outcome, retryable bool) bloom.Completion {
	return bloom.Completion{LeaseID: "lease-7", Status: outcome, Retryable: retryable, ErrorClass: bloom.ClassCrashed}
}

// operations applies every rule to a situation.
var operations = map[lifecycle.Operation]func(situation) (lifecycle.Transition, error){
	lifecycle.OpLease: func(s situation) (lifecycle.Transition, error) {
		return lifecycle.GrantLease(s.task, "task", "context", "lease-8", "worker-2", 60, false, now)
	},
	lifecycle.OpHeartbeat: func(s situation) (lifecycle.Transition, error) { return lifecycle.Heartbeat(s.task, s.lease, now) },
	lifecycle.OpSucceed: func(s situation) (lifecycle.Transition, error) {
		return lifecycle.Finish(s.task, s.lease, completion(bloom.OutcomeSuccess, false), now)
	},
	lifecycle.OpFail: func(s situation) (lifecycle.Transition, error) {
		return lifecycle.Finish(s.task, s.lease, completion(bloom.OutcomeError, false), now)
	},
	lifecycle.OpRetry: func(s situation) (lifecycle.Transition, error) {
		return lifecycle.Finish(s.task, s.lease, completion(bloom.OutcomeError, true), now)
	},
	lifecycle.OpRelease: func(s situation) (lifecycle.Transition, error) {
		return lifecycle.Release(s.task, s.lease, "drain", 0, now)
	},
	lifecycle.OpSuspend: func(s situation) (lifecycle.Transition, error) {
		return lifecycle.Suspend(s.task, s.lease, bloom.Approval{ID: "a", Tool: "Bash", Status: bloom.ApprovalPending}, bloom.Metrics{}, now)
	},
	lifecycle.OpExpire:  func(s situation) (lifecycle.Transition, error) { return lifecycle.Expire(s.task, s.lease, now), nil },
	lifecycle.OpCancel:  func(s situation) (lifecycle.Transition, error) { return lifecycle.Cancel(s.task, now) },
	lifecycle.OpRequeue: func(s situation) (lifecycle.Transition, error) { return lifecycle.Requeue(s.task, now) },
}

func sortedMoves(set map[move]bool) []move {
	var list []move
	for m := range set {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b move) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Op, b.Op), cmp.Compare(a.To, b.To))
	})
	return list
}

// possible reports whether a sequence of operations leads to the situation: a queued task with a
// cancel request does not exist, because it is cancelled immediately, nor a dead one, or a dead one
// with attempts left.
func possible(s situation) bool {
	switch s.task.Status {
	case bloom.TaskQueued:
		return !s.task.CancelRequested
	case bloom.TaskDead:
		return !s.task.CancelRequested && s.task.Attempts == s.task.MaxAttempts
	}
	return true
}

func TestRulesMoveTasksExactlyAlongTheTable(t *testing.T) {
	t.Parallel()
	want := map[move]bool{}
	for _, e := range lifecycle.Edges {
		want[move{e.From, e.Op, e.To}] = true
	}
	got := map[move]bool{}
	for _, s := range situations() {
		if !possible(s) {
			continue
		}
		for op, apply := range operations {
			if tr, err := apply(s); err == nil && !tr.Noop {
				got[move{s.task.Status, op, tr.Task.Status}] = true
			}
		}
	}
	if diff := gocmp.Diff(sortedMoves(want), sortedMoves(got)); diff != "" {
		t.Errorf("the table (-) and the rules (+) differ:\n%s", diff)
	}
}

func TestEveryMoveKeepsTheInvariants(t *testing.T) {
	t.Parallel()
	for _, s := range situations() {
		if !possible(s) {
			continue
		}
		for op, apply := range operations {
			tr, err := apply(s)
			if err != nil {
				if bloom.KindOf(err) != bloom.KindConflict {
					t.Errorf("%s on %s: refused with %v, want a conflict", op, s, err)
				}
				continue
			}
			if tr.Noop {
				if diff := gocmp.Diff(s.task, tr.Task); diff != "" {
					t.Errorf("%s on %s: a repeat changed the task:\n%s", op, s, diff)
				}
				continue
			}
			checkInvariants(t, op, s, tr)
		}
	}
}

func checkInvariants(t *testing.T, op lifecycle.Operation, s situation, tr lifecycle.Transition) {
	t.Helper()
	before, after := s.task, tr.Task
	fail := func(format string, args ...any) { t.Errorf("%s on %s: %s", op, s, fmt.Sprintf(format, args...)) }
	wantEpoch, wantAttempts := before.Epoch, before.Attempts
	switch op {
	case lifecycle.OpLease:
		wantEpoch, wantAttempts = before.Epoch+1, before.Attempts+1
	case lifecycle.OpRelease, lifecycle.OpSuspend:
		wantAttempts--
	case lifecycle.OpRequeue:
		wantEpoch, wantAttempts = before.Epoch+1, 0
	}
	if after.Epoch != wantEpoch || after.Attempts != wantAttempts {
		fail("epoch %d, attempts %d; want %d, %d", after.Epoch, after.Attempts, wantEpoch, wantAttempts)
	}
	if named := after.LeaseID != nil && after.WorkerID != nil; op != lifecycle.OpCancel && named != (after.Status != bloom.TaskQueued) {
		fail("lease and worker named: %t while %s", named, after.Status)
	}
	if after.Status == bloom.TaskDead && (op != lifecycle.OpExpire || after.Attempts != after.MaxAttempts) {
		fail("dead, but not by expiry of the last attempt")
	}
	if before.Status.Terminal() && op != lifecycle.OpRequeue && before.Status != bloom.TaskDead {
		fail("left the terminal status %s", before.Status)
	}
	if tr.Lease.Status == bloom.LeaseActive && !after.Status.Held() && op != lifecycle.OpCancel {
		fail("an active lease on a task that is %s", after.Status)
	}
	if before.Status != after.Status && (tr.Action == "" || tr.Event == "" || tr.Detail == "") {
		fail("moved to %s without audit, event and sentence", after.Status)
	}
}

func TestTheDiagramShowsTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/development/state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := diagram(); !strings.Contains(string(page), want) {
		t.Errorf("docs/development/state-machine.md does not hold the diagram of lifecycle.Edges; it should read:\n%s", want)
	}
}

// diagram draws the transition table, one line for all operations between two
// statuses.
func diagram() string {
	lines := []string{"```mermaid", "stateDiagram-v2", "    [*] --> queued: submit"}
	type pair struct{ from, to bloom.TaskStatus }
	labels := map[pair][]string{}
	var order []pair
	for _, e := range lifecycle.Edges {
		p, label := pair{e.From, e.To}, string(e.Op)
		if e.When != "" {
			label += " (" + e.When + ")"
		}
		if labels[p] == nil {
			order = append(order, p)
		}
		labels[p] = append(labels[p], label)
	}
	for _, p := range order {
		lines = append(lines, fmt.Sprintf("    %s --> %s: %s", p.from, p.to, strings.Join(labels[p], "<br/>")))
	}
	lines = append(lines, "    completed --> [*]", "```")
	return strings.Join(lines, "\n")
}
