package cli

import (
	"bytes"
	"regexp"
	"testing"
)

func TestAProgramHasAVersionHoweverItWasBuilt(t *testing.T) {
	t.Parallel()
	for module, want := range map[string]string{
		"(devel)": "", "": "", "v0.1.0": "0.1.0", "v0.1.0+dirty": "0.1.0+dirty",
		"v0.0.0-20261124020617-525b28ea7282":         next + "-dev+525b28e",
		"v0.0.9-0.20261124020617-525b28ea7282+dirty": next + "-dev+525b28e",
	} {
		if got := versionOf(module); got != want {
			t.Errorf("%s: %q, want %q", module, got, want)
		}
	}
	var out bytes.Buffer
	if code := Main([]string{"--version"}, System{Out: &out, Err: &out, Env: homeOnly}); code != ExitOK || !regexp.MustCompile(`^bloom \d+\.\d+\.\d+(-dev)? \(`).MatchString(out.String()) {
		t.Errorf("--version says %q", &out)
	}
}
