package store

// LimitNames changes how many agents, and how many nodes, the agent key may make known.
func LimitNames(s *Store, most int) { s.most = most }
