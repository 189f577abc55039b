// Package timing is the clock that tests replace.
package timing
