package claude

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bloom-runtime/bloom/internal/storable"
)

// leftoverWait is how long processes of a turn may take to end after its result.
const leftoverWait = 300 * time.Millisecond

// leftovers counts the processes that started after the first prompt and still run,
// of tools and of claude itself. Orphans count as one that was not seen.
func (l *warmProcess) leftovers() (n int) {
	if l.initial == nil {
		return 0 // no turn yet
	}
	for deadline := time.After(leftoverWait); ; {
		n = 0
		for _, pid := range l.process.Descendants() {
			if !l.initial[pid] {
				n++
			}
		}
		// Only then: a process that is not seen because its parent just ended is an orphan by now.
		if n == 0 && l.process.Orphans() {
			n = 1
		}
		if n == 0 {
			return 0
		}
		select {
		case <-deadline:
			return n
		case <-time.After(leftoverWait / 10):
		}
	}
}

// replaceReason returns why the process must not serve another turn, "" when it may. A
// process with leftovers must not, so that they never run during a later task.
func (l *warmProcess) replaceReason(limits warmLimits) string {
	if l.exited() {
		return "it ended"
	}
	if inode(l.folder) != l.inode {
		return "its folder is gone" // another one of that name may have taken its place
	}
	if l.unclaimed.Load() && !isEmpty(l.folder) {
		return "a task wrote to its folder"
	}
	l.mu.Lock()
	fault := l.fault
	l.mu.Unlock()
	if fault != "" {
		return fault
	}
	if n := l.leftovers(); n > 0 {
		return fmt.Sprintf("%d processes of its turns still run", n)
	}
	used := l.process.Memory()
	switch {
	case used > limits.memory:
		return fmt.Sprintf("it uses %d MiB", used>>20)
	case l.firstMemory > 0 && used-l.firstMemory > limits.growth:
		return fmt.Sprintf("it uses %d MiB after %d turns, and used %d MiB after the first", used>>20, l.turns, l.firstMemory>>20)
	}
	return ""
}

// outOfTurn counts the processes that printed something while they had no task.
var outOfTurn atomic.Int64

// rejectOutOfTurn kills the process because of a line while it has no task: whatever it does now,
// no lease, limit or budget applies to it. It requires l.mu.
func (l *warmProcess) rejectOutOfTurn(m message) {
	if l.ending.Swap(true) {
		return
	}
	l.setFault("it printed a line between two turns")
	l.process.Kill()
	l.log.Warn("killed a claude process because it printed a line while it had no task",
		"session_id", l.sessionID, "type", storable.Cut(m.Type, 100), "subtype", storable.Cut(m.Subtype, 100), "total", outOfTurn.Add(1))
}

func pidSet(pids []int) map[int]bool {
	m := map[int]bool{}
	for _, pid := range pids {
		m[pid] = true
	}
	return m
}
