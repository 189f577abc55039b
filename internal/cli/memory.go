package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/memory"
)

type memoryCmd struct {
	Push       memoryPushCmd       `cmd:"" help:"Upload this node's memory of a project to object storage. Exits with 3 unless the node is the project's primary."`
	Pull       memoryPullCmd       `cmd:"" help:"Download a project's memory to this node. Exits with 2 on the primary, whose memory it would overwrite."`
	Status     memoryStatusCmd     `cmd:"" help:"Show a project's local and stored memory, and its primary node."`
	Doctor     memoryDoctorCmd     `cmd:"" help:"Find what is wrong with a project's memory, and how to repair it."`
	Leadership memoryLeadershipCmd `cmd:"" help:"Show or select a project's primary node."`
	Agent      memoryAgentCmd      `cmd:"" help:"Keep a project's memory on this node in sync and carry out membridge's commands, until stopped. A worker does the same."`
}

// memorySettings are the settings of every memory command.
type memorySettings struct {
	config.Memory
	JSON bool `name:"json" help:"Print JSON for programs."`
}

func (c *memorySettings) open(inv *invocation) (*memory.Project, error) {
	if err := c.askProject(inv); err != nil {
		return nil, err
	}
	if err := c.Finish(); err != nil {
		return nil, usage(err)
	}
	return app.OpenMemory(c.Memory, func(step string) { inv.progress("%s …", step) })
}

// askProject asks the person at the terminal which project is meant, and proposes the name of the
// working folder.
func (c *memorySettings) askProject(inv *invocation) error {
	if c.Project != "" || !inv.InTerminal {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return usagef("--project: %w", err)
	}
	fmt.Fprintf(inv.Err, "Project [%s]: ", clean(filepath.Base(dir), false))
	line, err := input(inv, func() (string, error) { return bufio.NewReader(inv.In).ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if c.Project = strings.TrimSpace(line); c.Project == "" && err == nil {
		c.Project = filepath.Base(dir)
	}
	return nil
}

type memoryPushCmd struct{ memorySettings }

func (c *memoryPushCmd) Run(inv *invocation) error {
	p, err := c.open(inv)
	if err != nil {
		return err
	}
	defer p.Bucket.Close()
	out, err := p.Push(inv.ctx)
	if err != nil {
		return memoryError(inv, err)
	}
	if c.JSON {
		return writeJSON(inv.Out, out)
	}
	if out.Unchanged {
		_, err = fmt.Fprintf(inv.Out, "%s: unchanged since %s pushed it at %s\n", c.Project, out.SourceHost, out.Timestamp.Local().Format(time.DateTime))
		return err
	}
	_, err = fmt.Fprintf(inv.Out, "%s: pushed %s, %s, SHA-256 %.12s\n", c.Project, bytesSize(out.Size), plural(out.Observations, "observation"), out.SHA256)
	return err
}

type memoryPullCmd struct{ memorySettings }

func (c *memoryPullCmd) Run(inv *invocation) error {
	p, err := c.open(inv)
	if err != nil {
		return err
	}
	defer p.Bucket.Close()
	out, err := p.Pull(inv.ctx)
	if err != nil {
		return memoryError(inv, err)
	}
	if c.JSON {
		return writeJSON(inv.Out, out)
	}
	if out.Unchanged {
		_, err = fmt.Fprintf(inv.Out, "%s: up to date\n", c.Project)
		return err
	}
	_, err = fmt.Fprintf(inv.Out, "%s: pulled %s, %s, pushed by %s at %s\n", c.Project, bytesSize(out.Size),
		plural(out.Observations, "observation"), out.SourceHost, out.Timestamp.Local().Format(time.DateTime))
	if out.Backup != "" {
		inv.say("The previous local memory was saved in %s", out.Backup)
	}
	if out.LocalAhead {
		inv.say("It had more observations than the downloaded one: check it before you delete it.")
	}
	return err
}

type memoryStatusCmd struct{ memorySettings }

func (c *memoryStatusCmd) Run(inv *invocation) error {
	p, err := c.open(inv)
	if err != nil {
		return err
	}
	defer p.Bucket.Close()
	s, err := p.Status(inv.ctx)
	if err != nil {
		return memoryError(inv, err)
	}
	if c.JSON {
		return writeJSON(inv.Out, s)
	}
	t := newTable("WHAT", "VALUE")
	t.row("project", s.Project+" ("+s.CanonicalID+")")
	t.row("here", describeLocal(s))
	t.row("stored", describeRemote(s))
	t.row("in step", yesNo(s.InStep))
	t.row("this node", s.Node+", "+roleOr(s.Role, "no role yet"))
	if s.Lease != nil {
		t.row("primary", fmt.Sprintf("%s, epoch %d", s.Lease.PrimaryNode, s.Lease.Epoch))
	}
	if s.PushedBy != "" {
		t.row("push running", s.PushedBy)
	}
	return t.print(inv)
}

func describeLocal(s memory.Status) string {
	switch {
	case s.Local == nil:
		return "none at " + s.DB
	case s.Local.Damage != "":
		return "damaged: " + s.Local.Damage
	}
	return fmt.Sprintf("%s, %s, SHA-256 %.12s", bytesSize(s.Local.Size), plural(s.Local.Observations, "observation"), s.Local.SHA256)
}

func describeRemote(s memory.Status) string {
	if s.Remote == nil {
		return "nothing yet"
	}
	return fmt.Sprintf("%s, %s, SHA-256 %.12s, pushed by %s at %s", bytesSize(s.Remote.Size), plural(s.Remote.Observations, "observation"),
		s.Remote.SHA256, s.Remote.SourceHost, s.Remote.Timestamp.Local().Format(time.DateTime))
}

func roleOr(r memory.Role, none string) string {
	if r == "" {
		return none
	}
	return string(r)
}

type memoryDoctorCmd struct {
	memorySettings
	Repair bool `name:"repair" help:"Repair what needs no decision."`
}

func (c *memoryDoctorCmd) Run(inv *invocation) error {
	p, err := c.open(inv)
	if err != nil {
		return err
	}
	defer p.Bucket.Close()
	var findings []app.Finding
	wrong := 0
	for _, f := range p.Doctor(inv.ctx, c.Repair) {
		status := app.Fine
		switch {
		case !f.OK:
			status = app.Wrong
			wrong++
		case f.Note:
			status = app.Doubtful
		}
		if f.Repaired {
			f.Detail, f.Fix = "repaired: "+f.Detail, ""
		}
		findings = append(findings, app.Finding{Name: f.Name, Status: status, Detail: f.Detail, Fix: f.Fix})
	}
	if c.JSON {
		if err := writeJSON(inv.Out, findings); err != nil {
			return err
		}
	} else {
		printFindings(inv, findings)
	}
	if wrong > 0 {
		return errSilent
	}
	return nil
}

type memoryLeadershipCmd struct {
	memorySettings
	Select string `name:"select" placeholder:"NODE" help:"Make this node the primary. Other nodes can then pull but not push."`
	Anyway bool   `name:"force-select" aliases:"anyway" help:"With --select: even if membridge has selected another node."`
}

func (c *memoryLeadershipCmd) Run(inv *invocation) error {
	p, err := c.open(inv)
	if err != nil {
		return err
	}
	defer p.Bucket.Close()
	var l memory.Lease
	ok := true
	if c.Select != "" {
		l, err = p.Select(inv.ctx, c.Select, 0, c.Anyway)
	} else {
		l, ok, err = p.Leadership(inv.ctx)
	}
	if err != nil {
		return memoryError(inv, err)
	}
	if !ok {
		return errors.New("this project has no primary yet: the first push decides, or select one with --select NODE")
	}
	if c.JSON {
		return writeJSON(inv.Out, l)
	}
	note := ""
	if l.NeedsSelection {
		note = "; it was not selected explicitly: confirm with --select " + l.PrimaryNode
	}
	_, err = fmt.Fprintf(inv.Out, "%s: %s is primary, epoch %d, lease until %s%s\n", c.Project, l.PrimaryNode, l.Epoch,
		time.Unix(l.ExpiresAt, 0).Format(time.DateTime), note)
	return err
}

// memoryError gives violations of the two rules that protect a memory their own exit codes.
func memoryError(inv *invocation, err error) error {
	if code := memory.ExitCode(err); code > ExitFailure {
		return exitError{err, code}
	}
	return interrupted(inv, err)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
