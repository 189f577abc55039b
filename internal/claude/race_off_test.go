//go:build !race

package claude_test

const raceDetector = false
