package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is set by the build (-ldflags -X).
var Version = "dev"

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
