package workspace

import (
	"io"
	"path"
	"strings"
)

// staysInside reports whether a link's target is in the folder and reached without leaving it:
// first up, never above the folder, and then down.
func staysInside(name, target string) bool {
	if target == "" || path.IsAbs(target) || strings.Contains(target, "\x00") {
		return false
	}
	above, down := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			down = true
		case down || above == 0:
			return false
		default:
			above--
		}
	}
	return true
}

// bounded fails when more than the limit is written.
type bounded struct {
	to   io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errTooLarge
	}
	return b.to.Write(p)
}
