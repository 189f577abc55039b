//go:build unix && !linux

package process

import "os/exec"

func startSupervisor(cmd *exec.Cmd) error { return cmd.Start() }

func supervisorEnded(int) {}

// endOrphans does nothing: only Linux lets a process adopt orphans.
func endOrphans() (found int, err error) { return 0, nil }
