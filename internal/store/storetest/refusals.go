package storetest

import (
	"errors"

	"github.com/bloom-runtime/bloom"
)

func asError(err error) *bloom.Error {
	var e *bloom.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// conflict is any refusal because of state.
var conflict = &bloom.Error{Kind: bloom.KindConflict, Code: bloom.CodeConflict, Message: "a conflict of state"}
