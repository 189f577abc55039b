//go:build unix && !linux

package process

import "errors"

// Concealed reports whether Conceal has succeeded. Here it never does.
func Concealed() bool { return false }

// Conceal hides this process's environment from other processes of the same
// user. Only Linux can; elsewhere it returns errors.ErrUnsupported.
func Conceal() error { return errors.ErrUnsupported }
