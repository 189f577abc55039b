package claude

import (
	"fmt"
	"time"
)

// leftoverWait is how long processes of a turn may take to end after its result.
const leftoverWait = 300 * time.Millisecond

// leftovers counts the processes that started after the first prompt and still run,
// of tools and of claude itself.
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

func pidSet(pids []int) map[int]bool {
	m := map[int]bool{}
	for _, pid := range pids {
		m[pid] = true
	}
	return m
}
