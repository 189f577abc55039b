package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// adoptsOrphans: orphaned descendants become children of the supervisor.
const adoptsOrphans = true

// FullTree reports whether descendants that left the process group are ended
// as well. They are on Linux.
const FullTree = true

const prSetChildSubreaper = 36 // linux/prctl.h

func becomeSubreaper() {
	// Supported by every kernel since 3.4. On failure only the process group is ended.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0)
}

// hasOrphans reports whether this process has adopted one that still exists. The kernel gives orphans
// to a process's main thread, on which this must be called, while the command is the child of
// another thread. WNOTHREAD looks at the calling thread's children alone.
func hasOrphans() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG|syscall.WNOTHREAD, nil)
		switch {
		case errors.Is(err, syscall.EINTR), pid > 0: // that one has ended
		default:
			return err == nil
		}
	}
}

func childAttributes() *syscall.SysProcAttr {
	// Pdeathsig covers the case that the supervisor is killed.
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// executable returns the running binary, even if its file has been replaced.
func executable() (string, error) { return "/proc/self/exe", nil }

// listed is a process in /proc.
type listed struct {
	pid    int
	zombie bool
}

// processTree maps each process id to its children.
type processTree map[int][]listed

// readTree reads all processes once. It may miss those that start or end in the meantime.
func readTree() processTree {
	tree := processTree{}
	proc, err := os.Open("/proc")
	if err != nil {
		return tree
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1) // use what was read before an error
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, zombie, ok := parentOf(pid); ok {
			tree[parent] = append(tree[parent], listed{pid, zombie})
		}
	}
	return tree
}

// below returns every process below root.
func (t processTree) below(root int) (found []listed) {
	queue := []int{root}
	for len(queue) > 0 {
		children := t[queue[0]]
		queue = queue[1:]
		found = append(found, children...)
		for _, child := range children {
			queue = append(queue, child.pid)
		}
	}
	return found
}

// descendants returns the living processes below root, without zombies.
func descendants(root int) (pids []int) {
	for _, p := range readTree().below(root) {
		if !p.zombie {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// parentOf returns a process's parent. Its name may contain anything, so the fields are counted
// from the last parenthesis (proc_pid_stat(5)).
func parentOf(pid int) (parent int, zombie, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false, false
	}
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0, false, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, fields[0][0] == 'Z', err == nil
}
