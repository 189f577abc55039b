package cli_test

import (
	"strings"
	"testing"
)

func TestBenchRefusesToMeasureALimit(t *testing.T) {
	t.Parallel()
	s := newStage(t, "server")
	s.start("--data-dir={dir}/data", "--listen=127.0.0.1:0", "--no-membridge", "--runtime-api-key="+serverKey)
	for _, args := range [][]string{{"run", "-n", "1"}, {"fleet", "-d", "1s", "--samples", "0"}, {"fill", "-n", "1"}} {
		out, code := s.run(append([]string{"bench"}, append(args, "--url", s.url(), "--api-key", serverKey)...)...)
		if code != 1 || !strings.Contains(out, `"key";q=6000;w=60`) || !strings.Contains(out, "--rate-limit-key=0") {
			t.Errorf("bench %v: exit code %d: %s", args, code, out)
		}
	}
}
