package schema

import (
	"time"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// Hurry has s try a step whose tables are in use so often, and pause so long between.
func (s *Schema) Hurry(tries uint, pause time.Duration) {
	s.patience = retry.Policy{First: pause, Tries: tries}
}
