package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

type artifactsCmd struct {
	List    artifactsListCmd    `cmd:"" default:"withargs" help:"List artifacts."`
	Show    artifactsShowCmd    `cmd:"" help:"Show one artifact as JSON."`
	Content artifactsContentCmd `cmd:"" help:"Print an artifact's content, or write it to a file."`
	Verify  artifactsVerifyCmd  `cmd:"" help:"Read the content of all artifacts and contexts and compare it with the recorded size and digest. Exits with 1 when something differs."`
	Move    artifactsMoveCmd    `cmd:"" help:"Move the content of all artifacts and contexts to the server's object storage."`
}

type artifactsListCmd struct {
	remote
	paging
	Task string `name:"task" placeholder:"ID" help:"Only artifacts of this task."`
	Type string `name:"type" placeholder:"TYPE" help:"Only artifacts of this type: LLM_RESULT, FILE, transcript."`
}

func (c *artifactsListCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	if c.Task, err = c.findTask(inv, api, c.Task); err != nil {
		return err
	}
	list, err := take(c.paging, api.AllArtifacts(inv.ctx, bloom.ArtifactQuery{TaskID: c.Task, Type: c.Type, Page: c.page()}))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, list)
	}
	now := time.Now()
	t := newTable("ARTIFACT", "TASK", "TYPE", "SIZE", "CREATED", "PATH OR CONTENT")
	for _, a := range list {
		t.row(a.ID, a.TaskID, a.Type, bytesSize(a.Size), ago(now, a.CreatedAt), shownOf(a))
	}
	return t.print(inv)
}

// shownOf is what a table says of an artifact: a file's path, the beginning of a text, or
// where the content is.
func shownOf(a bloom.Artifact) string {
	switch {
	case a.Path != "":
		return oneLine(a.Path, 60)
	case a.Content != nil:
		return oneLine(*a.Content, 40)
	case a.URL == nil:
		return "-"
	}
	if scheme, _, _ := strings.Cut(*a.URL, ":"); scheme == "file" || scheme == "database" {
		return "(on the server)"
	}
	return "(in the bucket)"
}

type artifactsShowCmd struct {
	remote
	ID string `arg:"" help:"The artifact's id, or its last 8 characters."`
}

func (c *artifactsShowCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.ID, err = findArtifact(inv.ctx, api, c.ID); err != nil {
		return err
	}
	a, err := api.Artifact(inv.ctx, c.ID)
	if err != nil {
		return err
	}
	return writeJSON(inv.Out, a)
}

type artifactsContentCmd struct {
	remote
	ID     string `arg:"" help:"The artifact's id, or its last 8 characters."`
	Output string `name:"output" short:"o" placeholder:"FILE" help:"Write to this file instead of printing. It must not exist."`
}

func (c *artifactsContentCmd) Run(inv *invocation) (err error) {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.ID, err = findArtifact(inv.ctx, api, c.ID); err != nil {
		return err
	}
	content, _, err := api.ArtifactContent(inv.ctx, c.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if c.Output == "" || c.Output == "-" {
		_, err = io.Copy(inv.Out, content)
		return err
	}
	size, err := writeNew(c.Output, content)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(inv.Err, "%s: %s\n", c.Output, bytesSize(size))
	return err
}

type artifactsVerifyCmd struct {
	remote
}

func (c *artifactsVerifyCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	did, err := api.VerifyArtifacts(inv.ctx, func(_ bloom.VerifyReport, d *bloom.ContentDefect) {
		switch {
		case d == nil:
		case c.JSON:
			_, _ = fmt.Fprintf(inv.Out, "%s\n", storable.MustJSON(d))
		default:
			_, _ = fmt.Fprintln(inv.Out, clean(d.Kind+": "+owner(*d)+" at "+cmp.Or(d.URL, "its row")+": "+d.Detail, false))
		}
	})
	if err != nil {
		return err
	}
	if c.JSON {
		_, err = fmt.Fprintf(inv.Out, "%s\n", storable.MustJSON(did))
	} else {
		_, err = fmt.Fprintf(inv.Out, "%s and %s, %s: %d missing, %d differing, %d orphaned, %d unreadable\n", plural(did.Examined, "artifact"), plural(did.Contexts, "context"), bytesSize(did.Bytes),
			did.Missing, did.Differs, did.Orphaned, did.Unchecked)
	}
	if err == nil && did.Defects() > 0 {
		err = errSilent
	}
	return err
}

// owner names the artifact or context that a defect belongs to.
func owner(d bloom.ContentDefect) string {
	switch {
	case d.ContextID != "":
		return "context " + d.ContextID
	case d.TaskID == "":
		return "a part of no context"
	}
	return "artifact " + cmp.Or(d.ArtifactID, "-") + " of task " + d.TaskID
}

type artifactsMoveCmd struct {
	remote
}

func (c *artifactsMoveCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	did, err := api.MoveArtifacts(inv.ctx, func(r bloom.MoveReport) {
		inv.progress("%d examined, %d moved, %s", r.Examined, r.Moved, bytesSize(r.Bytes))
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, did)
	}
	_, err = fmt.Fprintf(inv.Out, "%s and %s examined: %d moved (%s), %d skipped, %d failed\n", plural(did.Examined, "artifact"), plural(did.Contexts, "context"), did.Moved, bytesSize(did.Bytes), did.Skipped, did.Failed)
	if err == nil && did.Failed > 0 {
		err = errSilent
	}
	return err
}

// writeNew writes a new file and removes it again on failure.
func writeNew(path string, content io.Reader) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(path))
	}
	return size, nil
}
