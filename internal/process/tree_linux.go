package process

import (
	"bytes"
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
	// Known to every kernel since 3.4; a failure leaves the process group.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0)
}

func childAttributes() *syscall.SysProcAttr {
	// Pdeathsig covers the supervisor's own violent death.
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// executable is the running binary even when its file was replaced meanwhile.
func executable() (string, error) { return "/proc/self/exe", nil }

// descendants lists the living processes below root, zombies left out.
func descendants(root int) []int {
	children := make(map[int][]int)
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1) // what was read before an error still counts
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, alive := parentOf(pid); alive {
			children[parent] = append(children[parent], pid)
		}
	}
	var found []int
	queue := []int{root}
	for len(queue) > 0 {
		below := children[queue[0]]
		queue = append(queue[1:], below...)
		found = append(found, below...)
	}
	return found
}

// parentOf reads a process's parent. Its name may contain anything, so the
// fields are counted from the last parenthesis (proc(5)).
func parentOf(pid int) (parent int, alive bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 || fields[0][0] == 'Z' {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
