package postgres

import "github.com/bloom-runtime/bloom/internal/store"

// Supported lets tests check server versions that are not installed.
var Supported = supported

// Writes returns the statements that write rows.
func Writes() (texts []string) {
	texts = append(texts, putContexts.one, putContexts.many)
	for _, l := range store.Layouts {
		texts = append(texts, compiled(l).one, compiled(l).many)
	}
	return texts
}
