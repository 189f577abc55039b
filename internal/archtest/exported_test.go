package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxExported bounds the root: types, functions, variables and constants; methods and fields belong to
// their types.
const maxExported = 275

func TestTheRootHasOnlyWhatIsSaidOverTheWire(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*.go")
	if err != nil {
		t.Fatal(err)
	}
	var exported []string
	count := func(names ...*ast.Ident) {
		for _, n := range names {
			if n.IsExported() {
				exported = append(exported, n.Name)
			}
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					count(d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						count(s.Name)
					case *ast.ValueSpec:
						count(s.Names...)
					}
				}
			}
		}
	}
	if len(files) == 0 || len(exported) < 100 || len(exported) > maxExported {
		t.Errorf("the root package exports %d names, at most %d are wanted: what only our own programs use is internal", len(exported), maxExported)
	}
}
