//go:build unix && !linux

package process

import "errors"

// Conceal hides this process's environment from other processes of the same
// user. Only Linux can; elsewhere it returns errors.ErrUnsupported.
func Conceal() error { return errors.ErrUnsupported }
