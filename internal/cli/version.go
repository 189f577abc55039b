package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// next is the version of the next release; scripts/version.sh reads it.
const next = "0.1.0"

// Version is set by the build (-ldflags -X); otherwise it is what the Go command knows.
var Version string

func init() {
	if info, ok := debug.ReadBuildInfo(); ok {
		Version = cmp.Or(Version, versionOf(info.Main.Version))
	}
	Version = cmp.Or(Version, next+"-dev")
}

// versionOf returns the version of a build from a module's: v0.1.0 by go install of a release, or
// v0.0.0-20261124020518-cc3c1690b5e4 of a commit without a tag; "" for none.
func versionOf(module string) string {
	if commit := pseudoVersion.FindStringSubmatch(module); commit != nil {
		return next + "-dev+" + commit[1]
	}
	return strings.TrimPrefix(strings.Replace(module, "(devel)", "", 1), "v")
}

var pseudoVersion = regexp.MustCompile(`-(?:.*\.)?\d{14}-([0-9a-f]{7})`)

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON for programs."`
}

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisVersion() versionInfo {
	v := versionInfo{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	return v
}

func versionLine() string {
	v := thisVersion()
	return fmt.Sprintf("bloom %s (%s, %s)", v.Version, v.Go, v.Platform)
}

func (c *versionCmd) Run(inv *invocation) error {
	if c.JSON {
		return writeJSON(inv.Out, thisVersion())
	}
	_, err := fmt.Fprintln(inv.Out, versionLine())
	return err
}
