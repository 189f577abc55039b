package schema

import "time"

// Hurry has s try a step whose tables are in use so often, and pause so long between.
func (s *Schema) Hurry(tries int, pause time.Duration) { s.tries, s.pause = tries, pause }
