package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestEveryNumberFitsOn32Bits type-checks the program for a Raspberry Pi (armv7), where an int has
// 32 bits: a number of milliseconds does not fit in one. Building for it would take minutes.
func TestEveryNumberFitsOn32Bits(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the program with other flags than its tests")
	}
	// With the flags of make build, so that everything is in the build cache.
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-trimpath", "-json=ImportPath,Export,Dir,GoFiles,Module", "./cmd/bloom")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	type built struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
		Module                  struct{ Main bool }
	}
	exported, ours := map[string]string{}, []built(nil)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p built
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		exported[p.ImportPath] = p.Export
		if p.Module.Main || p.ImportPath == "math/bits" || p.ImportPath == "math" { // math.MaxInt
			ours = append(ours, p)
		}
	}
	files := token.NewFileSet()
	imports := narrowed{
		checked: map[string]*types.Package{},
		others:  importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exported[path]) }),
	}
	for _, p := range ours {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		narrow := types.Config{Importer: imports, Sizes: types.SizesFor("gc", "arm"), Error: func(err error) { t.Error(err) }}
		imports.checked[p.ImportPath], _ = narrow.Check(p.ImportPath, files, parsed, nil) // Error has received each error
	}
	if len(ours) < 20 {
		t.Errorf("only %d packages were checked", len(ours))
	}
}

// narrowed imports packages checked for 32 bits before, and the rest as built here.
type narrowed struct {
	checked map[string]*types.Package
	others  types.Importer
}

func (n narrowed) Import(path string) (*types.Package, error) {
	if p, ok := n.checked[path]; ok {
		return p, nil
	}
	return n.others.Import(path)
}
