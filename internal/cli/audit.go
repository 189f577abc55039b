package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/config"
)

type auditCmd struct {
	List   auditListCmd   `cmd:"" default:"withargs" help:"List the audit log."`
	Verify auditVerifyCmd `cmd:"" help:"Check that no audit entry was changed, removed or reordered, in the database and in exported files. Exits with 1 and names the first such entry."`
	Export auditExportCmd `cmd:"" help:"Print audit entries with their hashes, or write them to a file."`
}

type auditListCmd struct {
	remote
	paging
	Entity string `name:"entity" placeholder:"ID" help:"Only entries about this task, worker, …"`
	Action string `name:"action" placeholder:"ACTION" help:"Only entries of this action, for example task_completed."`
}

func (c *auditListCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	if c.Entity, err = c.findTask(inv, api, c.Entity); err != nil {
		return fmt.Errorf("%w; give the whole id of anything else", err)
	}
	entries, err := take(c.paging, api.AllAudit(inv.ctx, bloom.AuditQuery{EntityID: c.Entity, Action: c.Action, Page: c.page()}))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, entries)
	}
	t := newTable("TIME", "ACTION", "ENTITY", "ACTOR", "KEY", "FROM", "DETAIL")
	for _, e := range entries {
		t.row(time.UnixMilli(e.Timestamp).Format(time.DateTime), e.Action, strings.TrimPrefix(e.EntityType, "llm_")+" "+e.EntityID, e.Actor, dash(e.KeyID), dash(e.Address), oneLine(e.Detail, 70))
	}
	return t.print(inv)
}

// auditSource selects where the audit is read from: a running server, or its database.
type auditSource struct {
	remote
	From        string        `name:"data-dir" placeholder:"DIR" help:"Read the SQLite database in this data directory instead of asking the server. The server may be running."`
	DatabaseURL config.Secret `name:"database-url" placeholder:"URL" help:"Read this PostgreSQL database instead of asking the server."`
}

// chain opens the source; the caller must call done.
func (s *auditSource) chain(ctx context.Context) (chain audit.Reader, done func(), err error) {
	switch {
	case s.From != "" && s.DatabaseURL != "":
		return nil, nil, usagef("--data-dir and --database-url: give one of them")
	case s.From != "" || s.DatabaseURL != "":
		return app.AuditChain(ctx, s.From, string(s.DatabaseURL))
	}
	api, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	return auditlog.Served(api.AuditChain), func() {}, nil
}

type auditVerifyCmd struct {
	auditSource
	config.Bucket `group:"The bucket of --files bucket:"`
	Files         []string `name:"files" sep:"none" placeholder:"WHERE" help:"Check exported files, too: the folder that contains audit/, for example the data directory, or \"bucket\" for the bucket of MINIO_* or --blob-url (repeatable)."`
	FilesOnly     bool     `name:"files-only" help:"Check only exported files."`
}

func (c *auditVerifyCmd) Run(inv *invocation) error {
	files, err := c.files()
	if err != nil {
		return err
	}
	var chain audit.Reader
	if !c.FilesOnly {
		from, done, err := c.chain(inv.ctx)
		if err != nil {
			return err
		}
		defer done()
		chain = from
	}
	r, err := auditlog.Verify(inv.ctx, chain, files)
	var fault *audit.Fault
	if err != nil && !errors.As(err, &fault) {
		return interrupted(inv, err)
	}
	if c.JSON {
		if err := writeJSON(inv.Out, struct {
			auditlog.Report
			Fault *audit.Fault `json:"fault"`
		}{r, fault}); err != nil {
			return err
		}
	} else {
		c.print(inv.Out, r, fault)
	}
	if fault != nil {
		return errSilent
	}
	return nil
}

func (c *auditVerifyCmd) files() (auditlog.Files, error) {
	if len(c.Files) == 0 {
		if c.FilesOnly {
			return nil, usagef("--files-only requires --files")
		}
		return nil, nil
	}
	var places []auditlog.Files
	for _, where := range c.Files {
		files, err := c.filesIn(where)
		if err != nil {
			return nil, err
		}
		places = append(places, files)
	}
	return auditlog.Join(places...), nil
}

func (c *auditVerifyCmd) filesIn(where string) (auditlog.Files, error) {
	if where != "bucket" {
		return auditlog.ReadFolder(where)
	}
	if err := c.Bucket.Finish(); err != nil {
		return nil, usage(err)
	}
	if !c.InObjects() {
		return nil, usagef("--files bucket: set MINIO_ENDPOINT and its keys, or --blob-url")
	}
	return app.AuditBucket(c.Bucket)
}

func (c *auditVerifyCmd) print(w io.Writer, r auditlog.Report, fault *audit.Fault) {
	if fault != nil {
		where := ""
		if fault.File != "" {
			where = " in " + fault.File
		}
		_, _ = fmt.Fprintln(w, clean(fmt.Sprintf("entry %d%s is wrong (%s): %s", fault.Seq, where, fault.Kind, fault.Detail), false))
		return
	}
	if !c.FilesOnly {
		_, _ = fmt.Fprintf(w, "%s, %d to %d, unchanged", entries(r.Entries), r.First, r.Last)
		if r.Unchained > 0 {
			_, _ = fmt.Fprintf(w, "; %d more not chained yet", r.Unchained)
		}
		_, _ = fmt.Fprintf(w, "\nhash of entry %d: %s\n", r.Last, cmp.Or(r.Hash, audit.NoHash))
	}
	if len(c.Files) > 0 {
		_, _ = fmt.Fprintf(w, "%s with %s, %d to %d, unchanged\n", plural(r.Files, "file"), entries(r.Lines), r.FirstLine, r.LastLine)
		for _, seq := range r.Starts {
			_, _ = fmt.Fprintf(w, "the files restart at entry %d: earlier entries were removed before they were exported\n", seq)
		}
		for _, f := range r.Forks {
			_, _ = fmt.Fprintf(w, "the files fork after entry %d: a backup was restored; the database lacks %s up to %d\n", f.After, entries(f.Lines), f.Last)
		}
	}
}

func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return thousands(n) + " entries"
}

type auditExportCmd struct {
	auditSource
	Since  string `name:"from" placeholder:"TIME" help:"Only entries from this time on: 2026-11-22, in UTC, or 2026-11-22T08:00:00+01:00."`
	Until  string `name:"to" placeholder:"TIME" help:"Only entries before this time; a day is included to its end."`
	Format string `name:"format" default:"jsonl" enum:"jsonl,csv" help:"jsonl, which bloom audit verify can check, or csv."`
	Output string `name:"output" short:"o" placeholder:"FILE" help:"Write to this file instead of printing. It must not exist."`
}

func (c *auditExportCmd) Run(inv *invocation) error {
	from, err := moment("--from", c.Since, false)
	if err != nil {
		return err
	}
	to, err := moment("--to", c.Until, true)
	if err != nil {
		return err
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return usagef("--from: %s is not before --to %s", c.Since, c.Until)
	}
	chain, done, err := c.chain(inv.ctx)
	if err != nil {
		return err
	}
	defer done()
	if c.Output == "" || c.Output == "-" {
		w := bufio.NewWriter(inv.Out)
		_, err := auditlog.Export(inv.ctx, chain, w, c.Format, from, to)
		return interrupted(inv, errors.Join(err, w.Flush()))
	}
	r, w := io.Pipe()
	written := int64(0)
	go func() {
		n, err := auditlog.Export(inv.ctx, chain, w, c.Format, from, to)
		written = n
		_ = w.CloseWithError(err)
	}()
	size, err := writeNew(c.Output, r)
	_ = r.CloseWithError(io.ErrClosedPipe)
	if err != nil {
		return interrupted(inv, err)
	}
	inv.say("%s: %s, %s", c.Output, entries(written), bytesSize(size))
	return nil
}

// moment parses a time; the end of a day is the start of the next one.
func moment(flag, text string, end bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, usagef("%s: %q is not a time like 2026-11-22 or 2026-11-22T08:00:00Z", flag, text)
	}
	if end {
		t = t.AddDate(0, 0, 1)
	}
	return t, nil
}
