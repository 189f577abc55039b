package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// maxTask is the largest task that the server accepts, as JSON, in bytes.
const maxTask = 4 << 20

// taskFlags describe a new task.
type taskFlags struct {
	Prompt         string        `arg:"" optional:"" help:"The prompt; - or none reads it from standard input."`
	Agent          string        `name:"agent" short:"a" default:"assistant" placeholder:"SLUG" help:"The agent that does the work."`
	Context        string        `name:"context" short:"c" placeholder:"ID" help:"The conversation to continue, or @last; default: a new one."`
	Hint           []string      `name:"hint" group:"Files and output:" placeholder:"PATH" help:"File or pattern in the worker's folder to put before the prompt (repeatable)."`
	Artifact       []string      `name:"artifact" group:"Files and output:" placeholder:"GLOB" help:"Files in the worker's folder to upload when the run ends, for example out/** (repeatable)."`
	Timeout        time.Duration `name:"timeout" group:"Limits:" default:"30m" help:"Time limit of one run, 1s to 24h."`
	Budget         int64         `name:"budget" group:"Limits:" default:"0" placeholder:"N" help:"Most tokens one run may use; 0 means no limit."`
	Format         string        `name:"format" group:"Files and output:" default:"text" enum:"text,json" help:"Output format: text or json."`
	MaxAttempts    int           `name:"max-attempts" group:"Limits:" default:"3" placeholder:"N" help:"Maximum number of attempts, 1 to 10."`
	Priority       int           `name:"priority" group:"When and where it runs:" default:"0" placeholder:"N" help:"Tasks with a higher priority start first, -1000 to 1000."`
	Label          []string      `name:"label" group:"When and where it runs:" short:"l" placeholder:"L" help:"Label that a worker must carry (repeatable)."`
	Delay          time.Duration `name:"delay" group:"When and where it runs:" placeholder:"DURATION" help:"Start after this delay."`
	Ordered        bool          `name:"ordered" group:"When and where it runs:" help:"Wait for the earlier ordered tasks of the context."`
	Workspace      string        `name:"workspace" group:"Files and output:" enum:",context" default:"" placeholder:"context" help:"context: run in the context's own folder, which follows it from worker to worker."`
	Ask            []string      `name:"ask" group:"Limits:" sep:"none" placeholder:"RULE" help:"Permission rule of claude, such as 'Bash(git push *)': a person is asked before a call that matches (repeatable)."`
	AskRefused     bool          `name:"ask-refused" group:"Limits:" help:"Ask a person about what the worker's permission mode would refuse."`
	Questions      bool          `name:"questions" group:"Limits:" help:"Claude may ask people questions."`
	IdempotencyKey string        `name:"idempotency-key" group:"When and where it runs:" placeholder:"KEY" help:"Submit only once under this key."`
}

func (f *taskFlags) spec(inv *invocation) (bloom.TaskSpec, error) {
	prompt := f.Prompt
	if prompt == "" || prompt == "-" {
		if inv.InTerminal {
			fmt.Fprintln(inv.Err, "Type the prompt; Ctrl-D ends it.")
		}
		raw, err := input(inv, func() ([]byte, error) { return io.ReadAll(io.LimitReader(inv.In, maxTask+1)) })
		if err != nil {
			return bloom.TaskSpec{}, fmt.Errorf("read the prompt: %w", err)
		}
		prompt = strings.TrimRight(string(raw), "\n")
	}
	if err := checkPrompt(prompt); err != nil {
		return bloom.TaskSpec{}, err
	}
	if strings.TrimSpace(prompt) == "" {
		return bloom.TaskSpec{}, usagef("there is no prompt: give one as an argument, or on standard input")
	}
	seconds := int((f.Timeout + time.Second - 1) / time.Second)
	if seconds < 1 || seconds > bloom.MaxTimeoutSec {
		return bloom.TaskSpec{}, usagef("--timeout: %s is not between 1s and 24h", f.Timeout)
	}
	if err := f.check(); err != nil {
		return bloom.TaskSpec{}, err
	}
	conversation := f.Context
	switch {
	case conversation != "":
	case f.IdempotencyKey != "": // the same for each call, or the server would refuse the second
		conversation = "cli-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(f.IdempotencyKey)).String()
	default:
		conversation = "cli-" + uuid.NewString()
	}
	spec := bloom.TaskSpec{
		ContextID: conversation, AgentSlug: f.Agent, Prompt: prompt, ContextHints: f.Hint,
		Policy:        bloom.Policy{TimeoutSec: seconds, Budget: f.Budget, Ordered: f.Ordered, Workspace: bloom.Workspace(f.Workspace), Artifacts: f.Artifact, Ask: f.Ask, Approval: approvalPolicy(f.AskRefused), Questions: f.Questions},
		DesiredFormat: bloom.Format(f.Format), MaxAttempts: f.MaxAttempts, Priority: f.Priority,
		Labels: f.Label, IdempotencyKey: f.IdempotencyKey,
	}
	if f.Delay > 0 {
		spec.DelayMS = max(1, f.Delay.Milliseconds())
	}
	return spec, nil
}

// checkPrompt refuses a prompt that would not arrive unchanged.
func checkPrompt(prompt string) error {
	if !utf8.ValidString(prompt) && len(prompt) <= maxTask { // a longer one may be cut within a character
		return usagef("the prompt is not UTF-8 text; convert it first, for example with: iconv -f latin1 -t utf-8")
	}
	if strings.ContainsRune(prompt, 0) {
		return usagef("the prompt contains a NUL byte; it must be UTF-8 text")
	}
	// Encoded as the client sends it.
	var count counter
	enc := json.NewEncoder(&count)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(prompt); err != nil {
		return err
	}
	if count > maxTask-spareTask {
		return usagef("the prompt is too long: it has %s as JSON, where a line break or a quote takes two bytes, and a server takes tasks of at most %s",
			bytesSize(int64(count)), bytesSize(maxTask))
	}
	return nil
}

// spareTask is the part of maxTask for everything but the prompt.
const spareTask = 4 << 10

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// check refuses values that the server would treat as unset or as something else.
func (f *taskFlags) check() error {
	switch {
	case f.MaxAttempts < 1 || f.MaxAttempts > bloom.MaxMaxAttempts:
		return usagef("--max-attempts: %d is not between 1 and %d", f.MaxAttempts, bloom.MaxMaxAttempts)
	case f.Budget < 0:
		return usagef("--budget: %d is negative; 0 means no limit", f.Budget)
	case len(f.Artifact) > 16:
		return usagef("--artifact: %d globs are more than the 16 that a task may have", len(f.Artifact))
	case f.Delay < 0:
		return usagef("--delay: %s is negative", f.Delay)
	}
	return nil
}

// newTask is a task to submit, and its server.
type newTask struct {
	remote
	taskFlags
	Attach []string `name:"attach" group:"Files and output:" type:"path" placeholder:"FILE" help:"File of this machine to put into the folder attachments of the task's working folder (repeatable)."`
}

// attachments opens the files to attach. done closes them.
func (c *newTask) attachments() (files []client.Attach, done func(), err error) {
	var open []io.Closer
	done = func() {
		for _, f := range open {
			_ = f.Close()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	for _, path := range c.Attach {
		name := filepath.Base(path)
		if problem := (bloom.Attachment{Name: name}).CheckName(); problem != "" {
			return nil, done, usagef("--attach: the name %q %s", name, problem)
		}
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, done, usagef("--attach: %s does not exist", path)
		case err == nil && info.IsDir():
			return nil, done, usagef("--attach: %s is a folder; attach its files", path)
		case err != nil || !info.Mode().IsRegular():
			return nil, done, usagef("--attach: %s is not a file that can be read", path)
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, done, fmt.Errorf("--attach: %w", err)
		}
		open = append(open, f)
		info, err := f.Stat()
		if err != nil {
			return nil, done, fmt.Errorf("--attach: %w", err)
		}
		files = append(files, client.Attach{Name: name, Content: f, Size: info.Size()})
	}
	return files, done, nil
}

// submit queues the task. ctx bounds the request.
func (c *newTask) submit(ctx context.Context, inv *invocation) (*client.Client, bloom.Task, error) {
	var failed atomic.Pointer[error]
	api, err := c.openWith(func(err error, _ time.Duration) { failed.Store(&err) })
	if err != nil {
		return nil, bloom.Task{}, err
	}
	spec, err := c.spec(inv)
	if err != nil {
		return nil, bloom.Task{}, err
	}
	if spec.ContextID == last {
		if spec.ContextID, err = c.findContext(inv, api, last); err != nil {
			return nil, bloom.Task{}, err
		}
	}
	files, closeFiles, err := c.attachments()
	if err != nil {
		return nil, bloom.Task{}, err
	}
	defer closeFiles()
	hush := explainRetrying(inv, api, c.URL, &failed)
	task, err := api.SubmitWith(ctx, spec, files...)
	hush()
	if err != nil {
		return nil, bloom.Task{}, interrupted(inv, err)
	}
	c.remember(inv, task.ID)
	return api, task, nil
}

type taskSubmitCmd struct{ newTask }

func (c *taskSubmitCmd) Run(inv *invocation) error {
	_, task, err := c.submit(inv.ctx, inv)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, task)
	}
	_, err = fmt.Fprintln(inv.Out, task.ID)
	return err
}

func approvalPolicy(ask bool) string {
	if ask {
		return bloom.PolicyAsk
	}
	return ""
}
