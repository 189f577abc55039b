// Command licenses prints the licences of what is built into a program: of the Go modules that it
// reads as lines "NAME VERSION DIR" (from go list -deps), and of the npm packages of the web
// application, fonts included, if its package-lock.json is named. Each text is printed once, after
// the names of all that have it. A component without a licence is an error.
// usage: go list … | licenses [PACKAGE-LOCK]
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenceFile matches names of licences and notices, with or without an ending.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|copyright|notice|patents|unlicense|ofl)([-._].*)?$`)

// texts are the components by the text of their licence.
type texts map[string][]string

// add adds a component with all licences in its folder; folders of its dependencies are not its own.
func (t texts) add(name, dir string) (found bool, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !licenceFile.MatchString(d.Name()) || strings.HasSuffix(d.Name(), ".go") || strings.HasSuffix(d.Name(), ".js"):
			return nil
		}
		raw, err := os.ReadFile(path)
		if text := strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n")); err == nil && !slices.Contains(t[text], name) {
			t[text], found = append(t[text], name), true
		}
		return err
	})
	return found, err
}

// modules adds the Go modules.
func (t texts) modules(in *bufio.Scanner) error {
	for in.Scan() {
		field := strings.Fields(in.Text())
		if len(field) != 3 {
			continue // the program itself, or nothing
		}
		name := field[0] + " " + field[1]
		if found, err := t.add(name, field[2]); err != nil || !found && !t.has(name) {
			return fmt.Errorf("%s: no licence in %s (%w)", name, field[2], err)
		}
	}
	return in.Err()
}

func (t texts) has(name string) bool {
	for _, names := range t {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// packages adds the npm packages that are not for development alone.
func (t texts) packages(lock string) error {
	raw, err := os.ReadFile(lock)
	if err != nil {
		return err
	}
	var locked struct {
		Packages map[string]struct {
			Version, License string
			Dev, DevOptional bool
			Optional         bool
		}
	}
	if err := json.Unmarshal(raw, &locked); err != nil {
		return fmt.Errorf("%s: %w", lock, err)
	}
	for _, path := range slices.Sorted(maps.Keys(locked.Packages)) {
		p := locked.Packages[path]
		at := strings.LastIndex(path, "node_modules/")
		if at < 0 || p.Dev || p.DevOptional || p.Optional {
			continue
		}
		name := path[at+len("node_modules/"):] + " " + p.Version
		found, err := t.add(name, filepath.Join(filepath.Dir(lock), path))
		switch {
		case err != nil:
			return err
		case found || t.has(name):
		case p.License == "":
			return fmt.Errorf("%s: no licence in %s", name, path)
		default: // it ships no text
			text := "Licence: " + p.License
			t[text] = append(t[text], name)
		}
	}
	return nil
}

func run(locks []string) error {
	all := texts{}
	if err := all.modules(bufio.NewScanner(os.Stdin)); err != nil {
		return err
	}
	for _, lock := range locks {
		if err := all.packages(lock); err != nil {
			return err
		}
	}
	for _, names := range all {
		slices.Sort(names)
	}
	order := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return strings.Compare(all[a][0]+"\n"+a, all[b][0]+"\n"+b)
	})
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(out, "BLOOM Runtime contains these components under their own licences.")
	for _, text := range order {
		fmt.Fprintf(out, "\n%s\n%s\n%s\n\n%s\n", strings.Repeat("=", 72), strings.Join(all[text], "\n"), strings.Repeat("-", 72), text)
	}
	return out.Flush()
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}
