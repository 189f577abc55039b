package process

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// sweepLimit bounds the ending of orphans: a process that hangs in the kernel cannot be killed.
const sweepLimit = 10 * time.Second

// supervisors are the children that Start created. This process is the subreaper of all of them:
// when a command kills its own supervisor, its processes become children of this process, and every
// child that is not a supervisor is such an orphan.
var supervisors = struct {
	sync.Mutex
	adopting sync.Once
	pids     map[int]struct{}
}{pids: map[int]struct{}{}}

// startSupervisor starts cmd as a supervisor. The lock keeps a newly forked one from being mistaken
// for an orphan.
func startSupervisor(cmd *exec.Cmd) error {
	supervisors.adopting.Do(becomeSubreaper)
	supervisors.Lock()
	defer supervisors.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	supervisors.pids[cmd.Process.Pid] = struct{}{}
	return nil
}

func supervisorEnded(pid int) {
	supervisors.Lock()
	defer supervisors.Unlock()
	delete(supervisors.pids, pid)
}

// endOrphans kills the processes of a supervisor that died, and returns their number.
func endOrphans() (found int, err error) {
	deadline := time.After(sweepLimit)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		living, left := killOrphans()
		found = max(found, living)
		if left == 0 {
			return found, nil
		}
		select {
		case <-deadline:
			return found, fmt.Errorf("%d processes of a command whose supervisor died could not be ended", left)
		case <-tick.C:
		}
	}
}

// killOrphans kills and reaps the orphans and all their descendants once. It returns how many were
// alive, and how many children there were.
func killOrphans() (living, left int) {
	supervisors.Lock()
	defer supervisors.Unlock()
	tree := readTree()
	for _, child := range tree[os.Getpid()] {
		if _, known := supervisors.pids[child.pid]; known {
			continue
		}
		left++
		for _, p := range append(tree.below(child.pid), child) {
			if !p.zombie {
				living++
				_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended in the meantime
			}
		}
		_, _ = syscall.Wait4(child.pid, nil, syscall.WNOHANG, nil) // those still alive are reaped in the next round
	}
	return living, left
}
