//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

const adoptsOrphans = false

// FullTree reports whether descendants that left the process group are ended
// as well. Here they are not: only Linux lets a process adopt orphans.
const FullTree = false

func becomeSubreaper() {}

func setDumpable(bool) error { return nil }

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func executable() (string, error) { return os.Executable() }

func descendants(int) []int { return nil }

func hasOrphans() bool { return false }
