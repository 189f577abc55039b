package claude_test

import (
	"fmt"
	"testing"

	"github.com/bloom-runtime/bloom/internal/claude"
)

// Every message counts once however many there are, but only some are remembered.
func TestAnOutputOfManyMessagesNeedsLittleMemory(t *testing.T) {
	t.Parallel()
	var lines []string
	for n := range 5000 {
		line := fmt.Sprintf(`{"type":"assistant","message":{"id":"m%d","model":"m","usage":{"input_tokens":1,"output_tokens":1}}}`, n)
		lines = append(lines, line, line)
	}
	if remembered, tokens := claude.Meter(lines); remembered > 1000 || tokens != 10_000 {
		t.Errorf("it remembers %d messages and counts %d tokens, want 10000", remembered, tokens)
	}
}
