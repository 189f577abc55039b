package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Conceal hides this process's memory and its initial environment from other processes of the same
// user: otherwise a command that runs under this process could read every secret in
// /proc/PID/environ. The process can still read its own variables (os.Getenv), because Go keeps a
// copy. It can no longer be traced or dumped. A process with CAP_SYS_PTRACE, such as root, can
// still read its memory, but not the original environment.
//
// main calls it once, before it starts anything.
func Conceal() error {
	// Open first: a process that is not dumpable cannot open its own memory, unless it is root.
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err == nil {
		defer memory.Close()
		err = eraseEnvironment(memory)
	}
	if err = errors.Join(err, setDumpable(false)); err != nil {
		return fmt.Errorf("conceal the environment: %w", err)
	}
	return nil
}

// eraseEnvironment overwrites what /proc/self/environ shows.
func eraseEnvironment(memory *os.File) error {
	start, end, err := environmentRange()
	if err != nil || end <= start {
		return err
	}
	_, err = memory.WriteAt(make([]byte, end-start), start)
	return err
}

// environmentRange returns where the kernel put the environment: the fields env_start and env_end
// of proc_pid_stat(5).
func environmentRange() (start, end int64, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	// The name in parentheses may contain anything; the third field follows it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const envStart, envEnd = 50 - 3, 51 - 3
	if len(fields) <= envEnd {
		return 0, 0, errors.New("/proc/self/stat is too short")
	}
	if start, err = strconv.ParseInt(string(fields[envStart]), 10, 64); err != nil {
		return 0, 0, err
	}
	end, err = strconv.ParseInt(string(fields[envEnd]), 10, 64)
	return start, end, err
}

func setDumpable(on bool) error {
	var value uintptr
	if on {
		value = 1
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, value, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
