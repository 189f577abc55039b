package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// IgnoreFile lists what is not packed, with the syntax of .dockerignore: patterns from the folder's
// root, ** for any folders, ! for exceptions.
const IgnoreFile = ".bloomignore"

// Limits of IgnoreFile, which a task may have written.
const (
	maxIgnoreBytes    = 64 << 10
	maxIgnorePatterns = 500
)

// ignore is the parsed IgnoreFile; the zero value ignores nothing.
type ignore struct {
	patterns *patternmatcher.PatternMatcher
}

func readIgnore(root *os.Root) (ignore, error) {
	f, info, err := openRegular(root, IgnoreFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotRegular) {
		return ignore{}, nil
	}
	if err != nil {
		return ignore{}, err
	}
	defer f.Close()
	if info.Size() > maxIgnoreBytes {
		return ignore{}, fmt.Errorf("%s has %d bytes, more than %d", IgnoreFile, info.Size(), maxIgnoreBytes)
	}
	patterns, err := ignorefile.ReadAll(io.LimitReader(f, maxIgnoreBytes))
	if err == nil && len(patterns) > maxIgnorePatterns {
		err = fmt.Errorf("%d patterns, more than %d", len(patterns), maxIgnorePatterns)
	}
	var matcher *patternmatcher.PatternMatcher
	if err == nil {
		matcher, err = patternmatcher.New(patterns)
	}
	if err != nil {
		return ignore{}, fmt.Errorf("%s: %w", IgnoreFile, err)
	}
	return ignore{matcher}, nil
}

// matches reports whether the entry is ignored, and whether everything below it is, too.
func (i ignore) matches(name string) (stays, all bool, err error) {
	if i.patterns == nil {
		return false, false, nil
	}
	stays, err = i.patterns.MatchesOrParentMatches(name)
	return stays, stays && !i.patterns.Exclusions(), err
}
