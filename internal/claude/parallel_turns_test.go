package claude_test

import (
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// Two workers run turns of one context at once, and each of them uploads the whole transcript.
func TestOfTwoTurnsAtOnceTheFirstToCompleteCounts(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*archive, *harness){
		"the first turns":            func(*archive, *harness) {},
		"after a turn of many parts": func(a *archive, h *harness) { h.turn(a, "one green"); a.split() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, harnesses := fleet(t, 2, 0, standin.Sequence(standin.Reply{Text: "noted"}))
			before(a, harnesses[0])
			blue, red := task("two blue"), task("three red")
			first, _ := harnesses[0].run(blue)
			second, _ := harnesses[1].run(red)
			for _, run := range []attempt.Run{first, second} {
				if wantSuccess(t, run, "noted"); run.Completion.Transcript.After != "" {
					t.Fatalf("the update is not of the whole transcript: %+v", run.Completion.Transcript)
				}
			}
			a.complete(t, blue, first)
			if _, ok := a.applied(red, second); ok {
				t.Error("the second completion replaces the turn of the first")
			}
			harnesses[1].turn(a, "four")
			if got := harnesses[1].conversation(); !strings.Contains(got, "two blue") || strings.Contains(got, "three red") {
				t.Errorf("the conversation:\n%s", got)
			}
		})
	}
}

// split has the archive keep the transcript in so many parts that the next turn uploads it as a
// whole.
func (a *archive) split() {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true))
	if err != nil {
		panic(err)
	}
	defer zip.Close()
	a.frames["file:empty"] = zip.EncodeAll(nil, nil)
	k := a.kept["ctx"]
	for len(k.Parts) < 48 {
		k.Parts = append(k.Parts, bloom.TranscriptPart{URL: "file:empty", Size: int64(len(a.frames["file:empty"]))})
	}
	a.kept["ctx"] = k
}
