package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// workerScenes test how a worker runs tasks, with a stand-in for claude that records how it was
// called.
func workerScenes() map[string]scene {
	argument := func(want string) func(*stage) {
		return func(s *stage) {
			want := s.values.Replace(want)
			if args := strings.Split(s.read("args"), "\n"); !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, want) }) {
				s.Errorf("claude got %q, want %q", args, want)
			}
		}
	}
	holds := func(file, want string) func(*stage) {
		return func(s *stage) {
			if got := s.read(file); !strings.Contains(got, want) {
				s.Errorf("%s holds %q, want %q", file, got, want)
			}
		}
	}
	about := func(ok func(bloom.Worker) bool) func(*stage) {
		return func(s *stage) {
			if w := s.worker(); !ok(w) {
				s.Errorf("%+v", w)
			}
		}
	}
	return map[string]scene{
		"how claude is called": {roles: workers,
			before: func(s *stage) {
				s.file("agents-of-mine/poet.md", "---\nname: poet\n---\nSpeak in unusual verses.")
			},
			sets: []set{
				{"--claude", "{claude}", func(s *stage) {
					if task := s.finished("say pong"); task.Status != bloom.TaskCompleted {
						s.Errorf("the task is %s", task.Status)
					}
				}},
				{"--permission-mode", "plan", argument("--permission-mode=plan")},
				{"--allowed-tool", "Bash(git *)", argument("--allowed-tools=Bash(git *)")},
				{"--disallowed-tool", "WebFetch", argument("--disallowed-tools=WebFetch,")},
				{"--setting-source", "user", argument("--setting-sources=user")},
				{"--mcp-config", `{"mcpServers": {}, "more": [1, 2]}`, argument(`--mcp-config={"mcpServers": {}, "more": [1, 2]}`)},
				{"--strict-mcp-config", "", argument("--strict-mcp-config")},
				{"--model", "unusual-model", argument("--model=unusual-model")},
				{"--agents-dir", "{dir}/agents-of-mine", holds("args", "Speak in unusual verses.")},
				{"--pass-env", "CANARY_A", func(s *stage) {
					holds("env", "CANARY_A=passed-on")(s)
					if strings.Contains(s.read("env"), "CANARY_B") {
						s.Error("a variable is passed on that was not named")
					}
				}},
				{"--workdir", "{dir}/unusual-workdir", holds("pwd", "/unusual-workdir/")},
				{"--workdir-per-context", "", func(s *stage) {
					if strings.TrimSpace(s.read("pwd")) == s.dir+"/unusual-workdir" {
						s.Error("the context has no folder of its own")
					}
				}},
				{"--lease-ttl", "77s", func(s *stage) {
					leases, _, err := s.api().Leases(s.Context(), bloom.LeaseQuery{})
					if err != nil || len(leases) != 1 || leases[0].TTLSeconds != 77 {
						s.Errorf("%+v, %v", leases, err)
					}
				}},
			}},
		"what a worker reports": {roles: workers, sets: []set{
			{"--name", "unusual-name", about(func(w bloom.Worker) bool { return w.ID == "unusual-name" })},
			{"--max-concurrency", "7", about(func(w bloom.Worker) bool { return w.Capabilities.MaxConcurrency == 7 })},
			{"--label", "unusual", about(func(w bloom.Worker) bool { return slices.Equal(w.Capabilities.Labels, []string{"unusual"}) })},
		}},
		"silence": {roles: workers, sets: []set{{"--silence", "3s", func(s *stage) {
			if task := s.finished("HANG"); task.Status != bloom.TaskFailed { // by default it would run for 10 minutes
				s.Errorf("a task whose claude says nothing is %s", task.Status)
			}
			s.says(`task finished and reported.* error_class=timeout status=error`)
		}}}},
		"asking a person": {roles: workers, sets: []set{
			{"--ask", "Bash(git push *)", func(s *stage) {
				s.submit("push it")
				s.await("a call with the rule", func() bool {
					args, err := os.ReadFile(filepath.Join(s.dir, "args"))
					return err == nil && strings.Contains(string(args), `"ask":["Bash(git push *)"]`)
				})
			}},
			// By default it would wait for two minutes; this claude has no conversation to go on from.
			{"--approval-grace", "100ms", func(s *stage) { s.says("a run could not be suspended") }},
		}},
		"processes kept alive": {roles: workers, sets: []set{{"--warm", "2", func(s *stage) {
			s.await("a claude that waits for turns", func() bool {
				args, err := os.ReadFile(filepath.Join(s.dir, "started"))
				return err == nil && strings.Contains(string(args), "--input-format\nstream-json")
			})
		}}}},
		"files as artifacts": {roles: workers, also: []string{"--workdir={dir}/files"}, before: func(s *stage) {
			s.file("files/a", "a")
			s.file("files/b", strings.Repeat("b", 1<<20+1))
			s.file("files/c", "c")
		}, sets: []set{
			{"--upload-max-mib", "1", skips("b was not uploaded: its 1048577 bytes are more than the 1048576")},
			{"--upload-max-files", "2", skips("3 files match, and this worker uploads at most 2")},
		}},
		"drain": {roles: workers, sets: []set{{"--drain-grace", "1700ms", func(s *stage) {
			s.submit("HANG")
			s.says("task begun")
			s.stop()
			s.says(`grace=1\.7s`)
		}}}},
		"membridge's interval in up": {roles: []string{"up"}, sets: []set{{"--membridge-interval", "7s", announces}}},
		"membridge's interval": {roles: []string{"worker"}, also: []string{"--membridge-url={bridge}"}, sets: []set{{"--membridge-interval", "7s", func(s *stage) {
			announces(s)
			s.await("a registration", func() bool { return s.bridge.count(func(r recorded) bool { return r.body["interval_sec"] == 7.0 }) > 0 })
		}}}},
	}
}

// skips checks that a task with files has a warning for one that was not uploaded, and has the
// other.
func skips(why string) func(*stage) {
	return func(s *stage) {
		task, err := s.api().Submit(s.Context(), bloom.TaskSpec{ContextID: "files", AgentSlug: "poet", Prompt: "say pong", Policy: bloom.Policy{Artifacts: []string{"*"}}})
		if err == nil {
			task, err = s.api().Await(s.Context(), task.ID)
		}
		if err != nil {
			s.Fatal(err)
		}
		results, err := s.api().Results(s.Context(), task.ID)
		if text := string(storable.MustJSON(results)); err != nil || !strings.Contains(text, why) {
			s.Errorf("%s, %v", text, err)
		}
		artifacts, _, err := s.api().Artifacts(s.Context(), bloom.ArtifactQuery{TaskID: task.ID})
		if err != nil || len(artifacts) != 2 || artifacts[1].Path != "a" {
			s.Errorf("%+v, %v", artifacts, err)
		}
	}
}

func announces(s *stage) { s.says("registered with membridge.*interval=7s") }
