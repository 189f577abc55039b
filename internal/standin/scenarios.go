package standin

import (
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// scenarioName finds the scenario that a prompt selects: "scenario: tour".
var scenarioName = regexp.MustCompile(`scenario: ([a-z]+)`)

// Scenarios plays the scenario that a prompt selects with "scenario: NAME", and acts like Canned for
// every other prompt. The web application's tests and screenshots need all kinds of conversations:
// tools, failures, long and hostile output.
func Scenarios(request Request) Reply {
	name, step := scenarioStep(request)
	play := scenarios[name]
	if play == nil || len(request.Tools) == 0 {
		return Canned(request)
	}
	reply := play(step, workingDirectory(request))
	if reply.Usage == (Usage{}) {
		reply.Usage = Usage{Input: 1850, Output: 320, CacheRead: 12400}
	}
	return reply
}

// scenarioStep returns the scenario of the newest prompt that selects one, and the number of tool
// results since.
func scenarioStep(request Request) (name string, step int) {
	for i := len(request.Messages) - 1; i >= 0; i-- {
		m := request.Messages[i]
		if m.Role != "user" {
			continue
		}
		if strings.Contains(string(m.Content), `"tool_result"`) {
			step++
			continue
		}
		if found := scenarioName.FindStringSubmatch(m.Text()); found != nil {
			return found[1], step
		}
	}
	return "", 0
}

var scenarios = map[string]func(step int, dir string) Reply{
	"tour":    tour,
	"sub":     func(int, string) Reply { return Reply{Text: "The package has one exported type and no tests."} },
	"hold":    func(int, string) Reply { return Reply{Text: "The wait is over.", Until: after(time.Minute)} },
	"slow":    func(step int, _ string) Reply { return count(step, 12) },
	"endless": func(step int, _ string) Reply { return count(step, 600) },
	"refused": func(int, string) Reply {
		return Error(http.StatusBadRequest, "invalid_request_error", "the request was refused")
	},
	"asks": func(int, string) Reply {
		return Reply{Text: "There are two queues in the folder.\n\n**Which of them should I change?**"}
	},
	"files":    files,
	"denied":   denied,
	"question": question,
	"hostile":  func(int, string) Reply { return Reply{Text: hostile} },
	"big":      func(int, string) Reply { return Reply{Text: strings.Repeat(bigLine, 2<<20/len(bigLine))} },
	"json": func(int, string) Reply {
		return Reply{Text: `{"ok": true, "packages": [{"name": "queue", "tests": 12}, {"name": "worker", "tests": 0}], "note": null}`}
	},
}

// after returns a channel that is closed after wait.
func after(wait time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(wait, func() { close(done) })
	return done
}

// denied uses a tool that requires a permission.
func denied(step int, _ string) Reply {
	if step > 0 {
		return Reply{Text: "I could not read the page."}
	}
	return Tool("I'll read the page.", "WebFetch", map[string]any{"url": "https://docs.invalid/", "prompt": "Summarise it"})
}

// question asks a question with options, and goes on with whatever the answer is.
func question(step int, _ string) Reply {
	if step > 0 {
		return Reply{Text: "I have chosen accordingly."}
	}
	option := func(label, description string) map[string]any {
		return map[string]any{"label": label, "description": description}
	}
	return Tool("", "AskUserQuestion", map[string]any{"questions": []any{
		map[string]any{"question": "Which database should I use?", "header": "Database", "multiSelect": false,
			"options": []any{option("SQLite", "One file, nothing to set up"), option("PostgreSQL", "For several servers")}},
		map[string]any{"question": "Which parts need tests?", "header": "Tests", "multiSelect": true,
			"options": []any{option("Queue", "Order and limits"), option("Worker", "Crashes")}},
	}})
}

// files writes a file of each kind that the web application previews.
func files(step int, dir string) Reply {
	if step >= len(written) {
		return Reply{Text: "The report, its data, a chart and a page are in `out`."}
	}
	file := written[step]
	return Tool("", "Write", map[string]any{"file_path": path.Join(dir, "out", file.name), "content": file.content})
}

var written = []struct{ name, content string }{
	{"report.md", "# Queue report\n\nThe queue is **empty** most of the time.\n"},
	{"waits.csv", "day,tasks,longest wait\nMonday,12,\"1,5 s\"\nTuesday,30,\"4 s\"\n"},
	{"chart.svg", `<svg xmlns="http://www.w3.org/2000/svg" width="480" height="240" viewBox="0 0 120 60"><rect width="120" height="60" fill="#eef"/><path d="M20 60V30h20v30zm40 0V10h20v50z" fill="#55c"/></svg>`},
	{"page.html", `<!doctype html><style>h1{color:rgb(0,128,0)}</style><h1>Waits</h1><p>Tuesday was the busiest day.</p><img alt="" src="http://example.invalid/pixel.png"><script>document.querySelector("h1").textContent=parent.document.title="ran"</script>`},
}

// count sends a text every second, n times.
func count(step, times int) Reply {
	if step >= times {
		return Reply{Text: "Counted to " + strconv.Itoa(times) + "."}
	}
	name := strconv.Itoa(step + 1)
	if step < 26 {
		name = string(rune('A' + step))
	}
	reply := Tool("Step "+name+" of the count.", "Bash", map[string]any{"command": "echo counting"})
	reply.Until = after(time.Second)
	return reply
}

func tour(step int, dir string) Reply {
	file := path.Join(dir, "queue.go")
	var reply Reply
	switch step {
	case 0:
		reply = Tool("I'll start by looking at what is in the folder.", "Bash", map[string]any{
			"command": "echo 'package queue'; echo '3 files, 214 lines'", "description": "Look around",
		})
	case 1:
		reply = Tool("There is no queue yet. I'll write a small one, with a **lock** around its slice.", "Write", map[string]any{
			"file_path": file, "content": queueSource,
		})
		reply.Thinking = "A channel has a fixed size, so that a slice and a mutex are the better fit."
	case 2:
		reply = Tool("", "Read", map[string]any{"file_path": file})
	case 3:
		reply = Tool("`Pop` must say when the queue is empty, or callers cannot tell a zero value from nothing.", "Edit", map[string]any{
			"file_path": file, "old_string": popBefore, "new_string": popAfter,
		})
	case 4:
		reply = Tool("", "Bash", map[string]any{"command": "grep -n 'func (q' queue.go", "description": "Find the methods"})
	case 5:
		reply = Tool("", "Read", map[string]any{"file_path": path.Join(dir, "queue_test.go")})
	case 6:
		reply = Tool("No tests are there. I'll have the package reviewed by a second pair of eyes.", "Agent", map[string]any{
			"description": "Review the package", "prompt": "scenario: sub\nReview the package queue.", "subagent_type": "general-purpose",
		})
	default:
		return Reply{Text: tourEnd, Usage: Usage{Input: 2400, Output: 610, CacheRead: 20100}}
	}
	reply.Until = after(250 * time.Millisecond)
	return reply
}

const (
	popBefore   = "func (q *Queue[T]) Pop() T {\n\tq.mu.Lock()\n\tdefer q.mu.Unlock()\n\tv := q.items[0]\n\tq.items = q.items[1:]\n\treturn v\n}"
	popAfter    = "func (q *Queue[T]) Pop() (v T, ok bool) {\n\tq.mu.Lock()\n\tdefer q.mu.Unlock()\n\tif len(q.items) == 0 {\n\t\treturn v, false\n\t}\n\tv = q.items[0]\n\tq.items = q.items[1:]\n\treturn v, true\n}"
	queueSource = "package queue\n\nimport \"sync\"\n\n// Queue is first in, first out.\ntype Queue[T any] struct {\n\tmu    sync.Mutex\n\titems []T\n}\n\n" +
		"// Push adds v at the end.\nfunc (q *Queue[T]) Push(v T) {\n\tq.mu.Lock()\n\tdefer q.mu.Unlock()\n\tq.items = append(q.items, v)\n}\n\n" +
		"// Pop takes the first.\n" + popBefore + "\n"
	tourEnd = "## A queue that is safe to share\n\n" +
		"`queue.go` has a generic, first-in-first-out queue. Every method holds one lock.\n\n" +
		"| method | cost | empty queue |\n|---|---|---|\n| `Push(v)` | O(1) amortised | grows |\n| `Pop()` | O(1) | returns `false` |\n\n" +
		"```go\nq := new(queue.Queue[int])\nq.Push(1)\nv, ok := q.Pop()\n```\n\n" +
		"What is left:\n\n1. **Tests**: there are none yet.\n2. The slice keeps what was popped alive until it grows again.\n"
	hostile = "<script>window.__ran = 1</script><img src=x onerror=\"window.__ran = 2\">\n\n" +
		"[a link](javascript:window.__ran=3) and [another](data:text/html,<script>window.__ran=4</script>) and <a href=\"javascript:window.__ran=5\">raw</a>\n\n" +
		"<iframe srcdoc=\"<script>parent.__ran=6</script>\"></iframe> <svg onload=\"window.__ran=7\"></svg> ![pixel](http://example.invalid/pixel.png)\n"
	bigLine = "A line of output that says nothing, again and again, to be long. 0123456789\n"
)
