package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/cli"
)

// set is one setting with an unusual value and a check of its effect. In the value, {dir}, {port},
// {bridge}, {runtime} and {claude} stand for the stage's.
type set struct {
	flag  string
	value string // empty for a switch
	see   func(*stage)
}

// scene is one run of each of its roles with the settings.
type scene struct {
	roles  []string
	before func(*stage)
	also   []string // further arguments that the scene needs
	up     []string // additional ones for `bloom up`
	sets   []set
}

// TestEverySettingOfEveryRoleTakesEffect runs each role with each of its settings at an unusual
// value. A setting without a scene fails the test.
func TestEverySettingOfEveryRoleTakesEffect(t *testing.T) {
	t.Parallel()
	scenes := allScenes()
	for _, role := range []string{"server", "membridge", "worker", "up"} {
		settings, err := cli.SettingsOf(role, cli.System{Out: os.Stdout, Err: os.Stderr, Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		covered := map[string]bool{}
		for name, sc := range scenes {
			if !slices.Contains(sc.roles, role) {
				continue
			}
			for _, one := range sc.sets {
				covered[one.flag] = one.see != nil
			}
			t.Run(role+"/"+name, func(t *testing.T) {
				t.Parallel()
				sc.play(newStage(t, role))
			})
		}
		for _, flag := range settings {
			if !covered[flag] {
				t.Errorf("bloom %s: nothing shows that %s takes effect; add it to a scene", role, flag)
			}
			delete(covered, flag)
		}
		for flag := range covered {
			t.Errorf("bloom %s has no setting %s any more", role, flag)
		}
	}
}

func (sc scene) play(s *stage) {
	if sc.before != nil {
		sc.before(s)
	}
	args := append(slices.Clone(sc.also), s.defaults(sc)...)
	if s.role == "up" {
		args = append(args, sc.up...)
	}
	for _, one := range sc.sets {
		if one.value == "" {
			args = append(args, one.flag)
			continue
		}
		args = append(args, one.flag+"="+one.value)
	}
	s.start(args...)
	for _, one := range sc.sets {
		one.see(s)
		if s.Failed() {
			s.Fatalf("bloom %s %s=%s", s.role, one.flag, one.value)
		}
	}
}

// defaults are what a role requires to run on this machine, unless the scene sets it.
func (s *stage) defaults(sc scene) []string {
	all := map[string][]string{
		"server":    {"--data-dir={dir}/data", "--listen=127.0.0.1:0", "--membridge-server-url={bridge}"},
		"membridge": {"--data-dir={dir}/data", "--listen=127.0.0.1:0"},
		"worker":    {"--data-dir={dir}/data", "--url={runtime}", "--api-key=" + s.key, "--claude={claude}"},
		"up":        {"--data-dir={dir}/data", "--listen=127.0.0.1:0", "--membridge-listen=127.0.0.1:0", "--claude={claude}", "--membridge-server-url={bridge}"},
	}
	return slices.DeleteFunc(all[s.role], func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.ContainsFunc(sc.sets, func(one set) bool { return one.flag == name || strings.Contains(replaces[name], one.flag+" ") })
	})
}

// replaces has the settings that replace a default of the tests, or that it would override.
var replaces = map[string]string{"--api-key": "--key-file ", "--listen": "--host --port ", "--membridge-listen": "--membridge-host --membridge-port "}

const (
	serverKey = "an-unusual-admin-key"
	workerKey = "an-unusual-worker-key"
	fileKey   = "a-key-out-of-a-file"
)

// noMembridge makes `bloom up` use the stage's membridge and not its own.
var noMembridge = []string{"--no-membridge"}

var (
	servers = []string{"server", "up"}
	bridges = []string{"membridge", "up"}
	workers = []string{"worker", "up"}
	every   = []string{"server", "membridge", "worker", "up"}
)

func allScenes() map[string]scene {
	all := map[string]scene{}
	for _, group := range []map[string]scene{commonScenes(), serverScenes(), keyScenes(), bridgeScenes(), workerScenes(), announceScenes(), tlsScenes(), objectScenes(), memoryScenes()} {
		for name, sc := range group {
			if _, twice := all[name]; twice {
				panic(name)
			}
			all[name] = sc
		}
	}
	return all
}

// something makes the role do what it logs at level info.
func something(s *stage) {
	switch s.role {
	case "worker":
		s.worker()
	case "membridge":
		s.call("GET", s.bridgeURL()+"/agents", "")
	default: // not health, which is answered, and not logged, while the role starts
		s.call("GET", s.url()+"/api/runtime/stats", "")
	}
}

func commonScenes() map[string]scene {
	return map[string]scene{
		"data directory": {roles: every, sets: []set{{"--data-dir", "{dir}/elsewhere", func(s *stage) {
			something(s)
			file := map[string]string{"server": "bloom.db", "up": "bloom.db", "membridge": "membridge.db", "worker": "workers/*/state/instance"}[s.role]
			s.await(file, func() bool { found, _ := filepath.Glob(filepath.Join(s.dir, "elsewhere", file)); return len(found) > 0 })
		}}}},
		"log format": {roles: every, also: []string{"--log-level=debug"}, sets: []set{{"--log-format", "json", func(s *stage) {
			something(s)
			s.says(`(?m)^\{"time":.*"level":`)
		}}}},
		"log file": {roles: every, also: []string{"--log-level=debug"}, sets: []set{{"--log-file", "{dir}/log", func(s *stage) {
			something(s)
			s.await("the log", func() bool { return strings.Contains(s.read("log"), "level=") })
			if strings.Contains(s.out.String(), "level=") {
				s.Error("it also logs to standard error")
			}
		}}}},
		"log level": {roles: every, sets: []set{{"--log-level", "error", func(s *stage) {
			something(s)
			s.stop()
			if out := s.out.String(); strings.Contains(out, "level=INFO") || strings.Contains(out, "level=WARN") {
				s.Error("it logs below the level")
			}
		}}}},
		"database": {roles: []string{"server", "membridge", "up"}, before: listenForPostgres,
			sets: []set{{"--database-url", "postgres://unusual@127.0.0.1:{port}/database?sslmode=disable", func(s *stage) {
				s.await("a connection to the database", func() bool { return s.bridge.count(func(r recorded) bool { return r.path == "postgres" }) > 0 })
			}}}},
	}
}

// listenForPostgres records connections to {port} and closes them.
func listenForPostgres(s *stage) {
	l, err := net.Listen("tcp", s.values.Replace("127.0.0.1:{port}"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.bridge.mu.Lock()
			s.bridge.got = append(s.bridge.got, recorded{path: "postgres"})
			s.bridge.mu.Unlock()
			c.Close()
		}
	}()
}
