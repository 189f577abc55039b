// Package archtest checks the import directions that docs/development/architecture.md draws. The linter checks
// the same, file by file; this test also sees indirect imports.
package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/bloom-runtime/bloom"

type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// load returns the module's packages and all their dependencies, without tests.
func load(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,Deps", module+"/...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	all := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
	if len(all) < 20 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// under reports whether path is one of the trees or below one, all relative to the module.
func under(path string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool {
		tree = module + "/" + tree
		return path == tree || strings.HasPrefix(path, tree+"/")
	})
}

var servers = []string{"internal/store", "internal/httpapi", "internal/dispatch", "internal/maintenance", "internal/auth",
	"internal/blob", "internal/membridge", "internal/app", "internal/cli"}

// words are the packages that everything may stand on, as on the root: what only our own programs say.
var words = []string{"internal/attempt", "internal/audit", "internal/blob", "internal/storable", "internal/store/contract", "internal/timing"}

func spoken(path string) bool { return slices.Contains(words, strings.TrimPrefix(path, module+"/")) }

// rules list what a tree must not depend on, even indirectly.
var rules = []struct {
	tree    string
	never   []string
	because string
}{
	{"client", []string{"internal"}, "the SDK is public and stands on the vocabulary alone"},
	{"internal/store", []string{"internal/httpapi", "internal/worker", "internal/dispatch", "client"}, "stores, HTTP and worker never import one another"},
	{"internal/store/sqlite", []string{"internal/store/postgres"}, "databases never import one another"},
	{"internal/store/postgres", []string{"internal/store/sqlite"}, "databases never import one another"},
	{"internal/lifecycle", []string{"internal", "client"}, "rules stand on the vocabulary alone"},
	{"internal/retry", []string{"client", "internal"}, "whoever tries again may stand on it"},
	{"internal/schema", []string{"internal"}, "what the stores have in common knows none of them"},
	{"internal/group", []string{"internal"}, "what the stores have in common knows none of them"},
	{"internal/httpapi", []string{"internal/store", "internal/worker", "client"}, "stores, HTTP and worker never import one another"},
	{"internal/dispatch", []string{"internal/store", "internal/httpapi", "internal/worker", "client"}, "use cases know contracts only"},
	{"internal/content", []string{"internal", "client"}, "content is read and written through contracts"},
	{"internal/problems", []string{"internal/store", "internal/httpapi", "internal/dispatch", "client"}, "what is wrong is derived from contracts"},
	{"internal/search", []string{"internal/store", "internal/httpapi", "internal/dispatch", "client"}, "lists know contracts only"},
	{"internal/transcripts", []string{"internal/store", "internal/httpapi", "internal/dispatch", "client"}, "use cases know contracts only"},
	{"internal/maintenance", []string{"internal/store", "internal/httpapi", "internal/worker", "client"}, "loops know contracts only"},
	{"internal/worker", servers, "a worker compiles without any server package"},
	{"internal/claude", append([]string{"internal/worker", "client"}, servers...), "running claude knows neither server nor worker"},
	{"internal/process", []string{"client", "internal/claude", "internal/worker"}, "processes know no domain"},
	{"internal/front", []string{"client", "internal"}, "what a server answers on knows nothing of what it serves"},
	{"internal/service", []string{"client", "internal/app", "internal/worker", "internal/config"}, "services are set up without knowing the roles"},
	{"internal/installer", []string{"client", "internal"}, "it serves files and knows nothing of tasks"},
	{"internal/share", []string{"client", "internal"}, "dividing a capacity needs no knowledge of what is divided"},
	{"internal/durable", []string{"client", "internal"}, "whoever writes a file may stand on it"},
	{"internal/workspace", []string{"client", "internal"}, "a folder knows no task"},
	{"internal/config", append([]string{"internal/worker", "internal/claude"}, servers...), "settings are read before anything is built"},
	{"internal/app", []string{"internal/cli"}, "the command line stands on the roles"},
}

func TestImportsRunInTheDrawnDirections(t *testing.T) {
	t.Parallel()
	all := load(t)
	for _, rule := range rules {
		found := false
		for path, p := range all {
			if !under(path, rule.tree) {
				continue
			}
			found = true
			for _, dep := range p.Deps {
				if under(dep, rule.never...) && !under(dep, rule.tree, "internal/retry") && !spoken(dep) {
					t.Errorf("%s stands on %s: %s", path, dep, rule.because)
				}
			}
		}
		if !found {
			t.Errorf("there is no package %s any more; does its rule still say something?", rule.tree)
		}
	}
}

func TestTheVocabularyStandsOnTheStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	all := load(t)
	for _, word := range words {
		for _, dep := range all[module+"/"+word].Deps {
			if !all[dep].Standard && dep != module && !spoken(dep) {
				t.Errorf("%s stands on %s", word, dep)
			}
		}
	}
	for _, dep := range all[module].Deps {
		if !all[dep].Standard {
			t.Errorf("the root package stands on %s", dep)
		}
	}
	for _, dep := range all[module].Imports {
		if dep == "net/http" || dep == "database/sql" || dep == "os/exec" {
			t.Errorf("the root package imports %s", dep)
		}
	}
}

func TestTheSDKStandsOnTheStandardLibraryAndTheVocabularyAlone(t *testing.T) {
	t.Parallel()
	all := load(t)
	for _, dep := range all[module+"/client"].Deps {
		if !all[dep].Standard && dep != module {
			t.Errorf("the SDK stands on %s", dep)
		}
	}
}

func TestSQLAppearsOnlyInStores(t *testing.T) {
	t.Parallel()
	for path, p := range load(t) {
		if !strings.HasPrefix(path, module) ||
			under(path, "internal/store", "internal/schema", "internal/membridge/store", "internal/memory", "internal/pgtest") {
			continue
		}
		for _, dep := range p.Imports {
			if dep == "database/sql" || strings.HasPrefix(dep, "modernc.org/sqlite") || strings.HasPrefix(dep, "github.com/jackc/pgx") {
				t.Errorf("%s imports %s; SQL appears only in stores", path, dep)
			}
		}
	}
}
