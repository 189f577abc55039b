package config_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/bloom-runtime/bloom/internal/config"
)

type settings struct {
	config.Server
	Membridge config.Membridge `embed:""`
	Worker    config.Run       `embed:""`
	Client    config.Client    `embed:""`
}

// parse reads settings from a file's text, variables and flags.
func parse(t *testing.T, file string, env map[string]string, args ...string) (*settings, config.Sources, error) {
	t.Helper()
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	r := config.Resolver{Env: lookup}
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if r.File, err = config.ReadFile(path, false); err != nil {
			return nil, config.Sources{}, err
		}
	}
	var s settings
	parser, err := kong.New(&s, kong.Resolvers(r), kong.Vars{"data_dir": "/data", "hostname": "host"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return nil, config.Sources{}, err
	}
	src := config.NewSources(ctx, r)
	return &s, src, s.Finish(src)
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const file = `reap_interval = "40s"`
	env := map[string]string{"BLOOM_REAP_INTERVAL": "50s"}
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		args []string
		want time.Duration
		from config.Source
	}{
		"default":                        {"", nil, nil, 30 * time.Second, config.FromDefault},
		"file beats default":             {file, nil, nil, 40 * time.Second, config.FromFile},
		"environment beats file":         {file, env, nil, 50 * time.Second, config.FromEnv},
		"flag beats environment":         {file, env, []string{"--reap-interval=60s"}, time.Minute, config.FromFlag},
		"flag beats all, even when like": {file, env, []string{"--reap-interval=30s"}, 30 * time.Second, config.FromFlag},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, src, err := parse(t, c.file, c.env, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if s.ReapInterval != c.want {
				t.Errorf("got %s, want %s", s.ReapInterval, c.want)
			}
			if from := src.Of("reap_interval", "BLOOM_REAP_INTERVAL"); from != c.from {
				t.Errorf("comes from %s, want %s", from, c.from)
			}
		})
	}
}

func TestMistakesAreReportedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		args []string
		want string
	}{
		"unknown key in the file":           {file: `lisen = "127.0.0.1:1"`, want: `unknown key "lisen"`},
		"a flag's name in the file":         {file: `reap-interval = "1s"`, want: `did you mean "reap_interval"?`},
		"malformed file":                    {file: "listen =", want: "line 1"},
		"a table in the file":               {file: "[server]\nlisten='x'", want: "is a table"},
		"empty value in the file":           {file: `listen = ""`, want: "is set but empty"},
		"malformed value in the file":       {file: `reap_interval = "soon"`, want: "reap_interval"},
		"list where one value belongs":      {file: `listen = ["a", "b"]`, want: "takes one value"},
		"a value none of the allowed":       {file: `permission_mode = "everything"`, want: "must be one of acceptEdits"},
		"mistake in the other role's line":  {file: `max_concurrency = "many"`, want: "max_concurrency"},
		"empty variable":                    {env: map[string]string{"DATABASE_URL": ""}, want: "is set but empty"},
		"malformed variable":                {env: map[string]string{"PORT": "http"}, want: "PORT"},
		"negative interval":                 {args: []string{"--reap-interval=-1s"}, want: "not greater than 0"},
		"listen without a port":             {args: []string{"--listen=127.0.0.1"}, want: "HOST:PORT"},
		"port out of range":                 {env: map[string]string{"PORT": "70000"}, want: `--port: port "70000"`},
		"port of --listen out of range":     {args: []string{"--listen=127.0.0.1:70000"}, want: `--listen: port "70000"`},
		"empty key file":                    {args: []string{"--runtime-api-key-file=" + keyFile}, want: "is empty"},
		"missing key file":                  {args: []string{"--runtime-api-key-file=/nowhere"}, want: "no such file"},
		"key and key file":                  {env: map[string]string{"RUNTIME_API_KEY": "k"}, args: []string{"--runtime-api-key-file=" + keyFile}, want: "both set"},
		"membridge address without a host":  {env: map[string]string{"MEMBRIDGE_SERVER_URL": "localhost"}, want: "is not a URL"},
		"membridge address with a password": {env: map[string]string{"MEMBRIDGE_SERVER_URL": "http://u:p@h"}, want: "must not contain a user or password"},
		"proxy that is no address":          {args: []string{"--trusted-proxy=everyone"}, want: "trusted-proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := parse(t, c.file, c.env, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// An address is complete; a part of it that is set on its own counts only from a stronger source.
func TestAnAddressWinsOverItsParts(t *testing.T) {
	t.Parallel()
	sources := []string{"default", "file", "environment", "flag"} // from weak to strong
	for _, pair := range []struct{ address, part, value string }{
		{"listen", "port", "6000"}, {"membridge_listen", "membridge_port", "6000"}, {"membridge_listen", "membridge_host", "127.0.0.9"},
	} {
		for a, addressFrom := range sources {
			for p, partFrom := range sources {
				t.Run(pair.part+" from "+partFrom+", "+pair.address+" from "+addressFrom, func(t *testing.T) {
					t.Parallel()
					given := map[string]map[string]string{addressFrom: {pair.address: "127.0.0.5:7000"}}
					want := "127.0.0.5:7000"
					if addressFrom == "default" {
						given, want = map[string]map[string]string{}, map[string]string{"listen": "127.0.0.1:5000", "membridge_listen": "127.0.0.1:8000"}[pair.address]
					}
					if partFrom != "default" {
						if given[partFrom] == nil {
							given[partFrom] = map[string]string{}
						}
						given[partFrom][pair.part] = pair.value
					}
					if p > a {
						want = replacePart(t, want, pair.value)
					}
					got, shown := address(t, pair.address, given)
					if got != want {
						t.Errorf("listens at %s, want %s", got, want)
					}
					if shown[pair.address].Value != want {
						t.Errorf("config show has %+v, want %s", shown[pair.address], want)
					}
					used := strings.Contains(shown[pair.address].From, shown[pair.part].From)
					unused := strings.Contains(shown[pair.part].From, "not used")
					if p > 0 && (used != (p > a) || unused == (p > a)) {
						t.Errorf("config show says %q and %q", shown[pair.address].From, shown[pair.part].From)
					}
				})
			}
		}
	}
}

// replacePart puts a host or a port into an address.
func replacePart(t *testing.T, addr, part string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(part, ".") {
		return net.JoinHostPort(part, port)
	}
	return net.JoinHostPort(host, part)
}

// address resolves a listen address from settings by source and key, and returns what config show
// says about each.
func address(t *testing.T, key string, given map[string]map[string]string) (string, map[string]config.Setting) {
	t.Helper()
	variables := map[string]string{"listen": "BLOOM_LISTEN", "port": "PORT", "membridge_listen": "BLOOM_MEMBRIDGE_LISTEN",
		"membridge_host": "MEMBRIDGE_HOST", "membridge_port": "MEMBRIDGE_PORT"}
	var file strings.Builder
	for key, value := range given["file"] {
		fmt.Fprintf(&file, "%s = %q\n", key, value)
	}
	env := map[string]string{}
	for key, value := range given["environment"] {
		env[variables[key]] = value
	}
	var args []string
	for key, value := range given["flag"] {
		args = append(args, "--"+strings.ReplaceAll(key, "_", "-")+"="+value)
	}
	s, src, err := parse(t, file.String(), env, args...)
	if err == nil {
		err = s.Membridge.Finish(src)
	}
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]config.Setting{}
	for _, one := range src.List() {
		shown[one.Key] = one
	}
	return map[string]string{"listen": s.Listen, "membridge_listen": s.Membridge.MembridgeListen}[key], shown
}

func TestListsFromEverySource(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		args []string
	}{
		"file":        {`labels = ["gpu", "big"]`, nil, nil},
		"environment": {"", map[string]string{"BLOOM_LABELS": "gpu,big"}, nil},
		"flags":       {"", nil, []string{"--label=gpu", "--label=big"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, err := parse(t, c.file, c.env, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.Worker.Label, "+"); got != "gpu+big" {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestAllowedToolsMayHoldCommas(t *testing.T) {
	t.Parallel()
	const tool = "Bash(git add a,b)"
	s, _, err := parse(t, `allowed_tools = ["Bash(git add a,b)"]`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Worker.AllowedTool) != 1 || s.Worker.AllowedTool[0] != tool {
		t.Errorf("got %q", s.Worker.AllowedTool)
	}
}

// JSON contains commas, which also separate file names.
func TestMCPConfigurationsMayBeJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.json"), filepath.Join(dir, "two.json")
	for _, path := range []string{one, two} {
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const text = `{"mcpServers": {}, "more": [1, 2]}`
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		args []string
		want []string
	}{
		"JSON by flag":              {args: []string{"--mcp-config=" + text}, want: []string{text}},
		"JSON by variable":          {env: map[string]string{"BLOOM_MCP_CONFIGS": text}, want: []string{text}},
		"JSON and a file":           {args: []string{"--mcp-config=" + text, "--mcp-config=" + one}, want: []string{text, one}},
		"files by variable":         {env: map[string]string{"BLOOM_MCP_CONFIGS": one + "," + two}, want: []string{one, two}},
		"JSON and a file in a file": {file: "mcp_configs = ['" + text + "', '" + one + "']", want: []string{text, one}},
		"files by one flag":         {args: []string{"--mcp-config=" + one + "," + two}, want: []string{one, two}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, err := parse(t, c.file, c.env, c.args...)
			if err == nil {
				err = s.Worker.Finish("/data")
			}
			if err != nil || !slices.Equal(s.Worker.MCPConfig, c.want) {
				t.Errorf("got %q, %v", s.Worker.MCPConfig, err)
			}
		})
	}
}

func TestKeysComeFromFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, err := parse(t, "", map[string]string{"RUNTIME_API_KEY_FILE": path})
	if err != nil {
		t.Fatal(err)
	}
	if string(s.RuntimeAPIKey) != "0123456789abcdef" {
		t.Errorf("got %q", string(s.RuntimeAPIKey))
	}
}

func TestShowMasksSecretsAndNamesSources(t *testing.T) {
	t.Parallel()
	const key = "abcd-the-secret-part-wxyz"
	_, src, err := parse(t, `labels = ["gpu"]`, map[string]string{"RUNTIME_API_KEY": key, "DATABASE_URL": "postgres://u:hush@h/d"}, "--port=6000")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]config.Setting{}
	for _, s := range src.List() {
		got[s.Key] = s
		if strings.Contains(s.Value, "secret-part") || strings.Contains(s.Value, "hush") {
			t.Errorf("%s shows a secret: %s", s.Key, s.Value)
		}
	}
	for key, want := range map[string][3]string{
		"runtime_api_key": {"abcd****wxyz", "environment", "RUNTIME_API_KEY"},
		"listen":          {"127.0.0.1:6000", "default", "with --port"},
		"port":            {"6000", "flag", "--port"},
		"reap_interval":   {"30s", "default", ""},
	} {
		if s := got[key]; s.Value != want[0] || s.Source != want[1] || s.From != want[2] {
			t.Errorf("%s: got %q from %q %q, want %q", key, s.Value, s.Source, s.From, want)
		}
	}
	if s := got["labels"]; s.Source != "file" || !strings.HasSuffix(s.From, "config.toml") {
		t.Errorf("labels: %+v", s)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	for in, want := range map[config.Secret]string{"": "", "12345678": "****", "123456789": "1234****6789"} {
		if got := in.Mask(); got != want {
			t.Errorf("Mask(%q) = %q, want %q", string(in), got, want)
		}
	}
}
