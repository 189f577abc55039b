package postgres

// Supported lets the tests ask about servers that are not installed.
var Supported = supported

// Queued is how many operations wait for the lane.
func Queued(s *Store) int { return s.lane.queue.Len() }
