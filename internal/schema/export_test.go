package schema

import (
	"time"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// SetRetries sets how often s tries a step whose tables are in use, and the pause between tries.
func (s *Schema) SetRetries(tries uint, pause time.Duration) {
	s.patience = retry.Policy{First: pause, Tries: tries}
}
