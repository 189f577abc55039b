package claude

import "slices"

// eviction decides which of too many idle processes is ended. Ending the least recently used one
// is best for conversations that go on, but when more contexts take turns than there are
// processes, each is ended before its turn, and none is ever used again. Then it is better to end
// the newest and keep the others. Two lists of contexts show what each rule would have kept; the
// one that would have reused more lately counts.
type eviction struct{ oldest, newest keptContexts }

// keptContexts are the contexts whose processes a rule would keep, least recently used first.
type keptContexts struct {
	contexts []string
	reused   float64 // how often one of them was used again lately
}

// evictionMemory is the weight of the earlier uses at each further one.
const evictionMemory = 1 - 1.0/64

// used records that a context's process became idle, of which there is room for some.
func (e *eviction) used(contextID string, room int) {
	e.oldest.use(contextID, room, oldestOf)
	e.newest.use(contextID, room, newestOf)
}

// victim returns the index of the process to end, of n in the order of their use.
func (e *eviction) victim(n int) int {
	if e.newest.reused > e.oldest.reused {
		return newestOf(n)
	}
	return oldestOf(n)
}

func oldestOf(int) int { return 0 }

// newestOf spares the last one, which was used just now.
func newestOf(n int) int { return max(0, n-2) }

func (k *keptContexts) use(contextID string, room int, victim func(n int) int) {
	k.reused *= evictionMemory
	if i := slices.Index(k.contexts, contextID); i >= 0 {
		k.reused++
		k.contexts = slices.Delete(k.contexts, i, i+1)
	}
	k.contexts = append(k.contexts, contextID)
	for n := len(k.contexts); n > room; n-- {
		i := victim(n)
		k.contexts = slices.Delete(k.contexts, i, i+1)
	}
}
