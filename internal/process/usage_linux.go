package process

import (
	"bytes"
	"os"
	"slices"
	"strconv"
)

// Descendants returns the living processes that the command and its descendants have started,
// including those whose parents have ended, in no order.
func (p *Process) Descendants() []int {
	// All of them are below the supervisor, which adopts orphans.
	return slices.DeleteFunc(descendants(p.cmd.Process.Pid), func(pid int) bool { return pid == p.pid })
}

// Memory returns the resident memory of the command itself, in bytes; 0 when unknown.
func (p *Process) Memory() int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(raw) // in pages: size, resident …
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// FreeMemory returns how much memory is available on this machine, or in this process's control
// group, in bytes; 0 when unknown.
func FreeMemory() int64 {
	free := memInfo("/proc/meminfo", "MemAvailable:") << 10
	for _, dir := range controlGroups() {
		limit, limited := number(dir + "memory.max")
		used, known := number(dir + "memory.current")
		if limited && known {
			// Reclaimable cache does not count as used.
			free = min(free, max(limit-used+memInfo(dir+"memory.stat", "inactive_file "), 0))
		}
	}
	return free
}

// TotalMemory returns the memory of this machine, or the limit of this process's control group, in
// bytes; 0 when unknown.
func TotalMemory() int64 {
	total := memInfo("/proc/meminfo", "MemTotal:") << 10
	for _, dir := range controlGroups() {
		if limit, limited := number(dir + "memory.max"); limited {
			total = min(total, limit)
		}
	}
	return total
}

// controlGroups returns the folders of the groups that may limit this process.
func controlGroups() []string {
	groups := []string{"/sys/fs/cgroup/"}
	if raw, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		if _, path, ok := bytes.Cut(bytes.TrimSpace(raw), []byte("0::/")); ok && len(path) > 0 {
			groups = append(groups, "/sys/fs/cgroup/"+string(path)+"/")
		}
	}
	return groups
}

func memInfo(path, name string) int64 {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(raw, []byte(name))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return n
}

func number(path string) (int64, bool) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
	return n, err == nil
}
