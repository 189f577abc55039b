// Command sbom prints a CycloneDX software bill of materials of a Go program, from
// what the Go toolchain wrote into it, and of the web application that it serves, if its
// package-lock.json is named. The same program gives the same bytes.
// usage: sbom PROGRAM VERSION [PACKAGE-LOCK]
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
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

// ofWeb returns the packages of npm that are built into the web application: those that are
// not for development alone.
func ofWeb(lock string) (parts []component, err error) {
	raw, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var locked struct {
		Packages map[string]struct {
			Version          string
			Dev, DevOptional bool
		}
	}
	if err := json.Unmarshal(raw, &locked); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	for _, path := range slices.Sorted(maps.Keys(locked.Packages)) {
		p := locked.Packages[path]
		at := strings.LastIndex(path, "node_modules/")
		if at < 0 || p.Dev || p.DevOptional {
			continue
		}
		name := path[at+len("node_modules/"):]
		purl := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version
		if !slices.ContainsFunc(parts, func(c component) bool { return c.PURL == purl }) {
			parts = append(parts, component{Type: "library", Name: name, Version: p.Version, PURL: purl, Ref: purl})
		}
	}
	return parts, nil
}

func run(program, version string, locks []string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	info.Main.Version = version
	parts := []component{{Type: "library", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + info.GoVersion, Ref: "pkg:golang/std@" + info.GoVersion}}
	for _, m := range info.Deps {
		parts = append(parts, of(m, "library"))
	}
	for _, lock := range locks {
		web, err := ofWeb(lock)
		if err != nil {
			return err
		}
		parts = append(parts, web...)
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
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION [PACKAGE-LOCK]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}
