package dispatch

// Bounds of saved filters.
const (
	MaxFilters    = 100 // in all
	MaxFilterName = 64  // characters
)
