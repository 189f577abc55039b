package dispatch

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
)

// The hash of a completion is stored as long as its result: its computation must never change it.
func TestALongOutputHashesAsItsWholeEncoding(t *testing.T) {
	t.Parallel()
	odd := "a\"b\\c\n\t\u2028<&>\x01é世😀"
	for _, size := range []int{0, 10, outputChunk - 3, outputChunk, outputChunk + 1, 3*outputChunk + 7} {
		output := strings.Repeat(odd, 1+size/len(odd))
		message := `"output":""`
		for _, c := range []bloom.Completion{
			{LeaseID: "00000000-0000-7000-8000-000000000000", Status: bloom.OutcomeSuccess, Output: &output},
			{Status: bloom.OutcomeError, Output: &output, ErrorMessage: &message, ArtifactTags: []string{message}},
		} {
			if completionHash(c) != jsonHash(c) {
				t.Errorf("an output of %d bytes hashes otherwise", len(output))
			}
		}
	}
}
