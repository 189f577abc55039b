package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processUse is the processor time and memory that a process and its children use.
type processUse struct {
	PID        int
	Name       string
	CPUPercent float64 // of one core
	MemoryMB   float64 // proportional set size

	ticks int64
}

// ticksPerSecond is USER_HZ, the same on every platform that Linux has.
const ticksPerSecond = 100

// usesOf reads what processes have used so far.
func usesOf(pids []int) ([]processUse, error) {
	uses := make([]processUse, len(pids))
	for i, pid := range pids {
		name, ticks, err := readStat(pid)
		if err != nil {
			return nil, fmt.Errorf("process %d cannot be measured: %w", pid, err)
		}
		u := processUse{PID: pid, Name: name, ticks: ticks, MemoryMB: memory(pid)}
		for _, child := range children(pid) {
			if _, ticks, err := readStat(child); err == nil { // it may have ended
				u.ticks += ticks
				u.MemoryMB += memory(child)
			}
		}
		uses[i] = u
	}
	return uses, nil
}

func (u processUse) since(before processUse, seconds float64) processUse {
	u.CPUPercent = 100 * float64(u.ticks-before.ticks) / ticksPerSecond / seconds
	return u
}

// readStat reads a process's name and the CPU time of it and of its children that
// have ended.
func readStat(pid int) (name string, ticks int64, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	fields := strings.Fields(string(raw[end+1:]))
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return "", 0, err
		}
		ticks += n
	}
	return string(raw[open+1 : end]), ticks, nil
}

// memory is a process's proportional set size, in MB.
func memory(pid int) float64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}

// children returns the direct children of a process.
func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		for word := range strings.FieldsSeq(string(raw)) {
			if child, err := strconv.Atoi(word); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
