//go:build unix && !linux

package process

// Descendants lists what the command and its descendants have started. It is supported only on
// Linux.
func (p *Process) Descendants() []int { return nil }

// Memory is the resident memory of the command itself. It is supported only on Linux.
func (p *Process) Memory() int64 { return 0 }

// TotalMemory is the memory of this machine. It is supported only on Linux.
func TotalMemory() int64 { return 0 }

// FreeMemory is the available memory of this machine. It is supported only on Linux.
func FreeMemory() int64 { return 0 }
