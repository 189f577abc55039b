// Command sbom prints a CycloneDX software bill of materials of a Go program, from
// what the Go toolchain wrote into it: the same program gives the same bytes.
// usage: sbom PROGRAM VERSION
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
)

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Ref     string `json:"bom-ref"`
}

func of(m *debug.Module, kind string) component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	return component{Type: kind, Name: m.Path, Version: m.Version, PURL: purl, Ref: purl}
}

func run(program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	info.Main.Version = version
	parts := []component{{Type: "library", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + info.GoVersion, Ref: "pkg:golang/std@" + info.GoVersion}}
	for _, m := range info.Deps {
		parts = append(parts, of(m, "library"))
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"component": of(&info.Main, "application")},
		"components": parts,
	})
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}
