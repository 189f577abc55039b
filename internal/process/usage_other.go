//go:build unix && !linux

package process

// Descendants lists what the command and its descendants have started. Only Linux
// can tell.
func (p *Process) Descendants() []int { return nil }

// Memory is what the command itself has in memory. Only Linux can tell.
func (p *Process) Memory() int64 { return 0 }

// TotalMemory is what this machine has. Only Linux can tell.
func TotalMemory() int64 { return 0 }

// FreeMemory is how much more memory this machine has for use. Only Linux can tell.
func FreeMemory() int64 { return 0 }
