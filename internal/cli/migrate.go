package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
)

type migrateCmd struct {
	Status migrateStatusCmd `cmd:"" help:"List schema migrations and whether they are applied."`
	Up     migrateUpCmd     `cmd:"" help:"Apply pending migrations. A server does this when it starts."`
	Import migrateImportCmd `cmd:"" help:"Import data: from a SQLite file into PostgreSQL, or from the earlier implementation's database."`
}

// database selects the database of a command.
type database struct {
	config.Data
	DatabaseURL config.Secret `name:"database-url" var:"DATABASE_URL" key:"database_url" placeholder:"URL" help:"PostgreSQL database; without it SQLite in the data directory."`
}

type migrateStatusCmd struct {
	database
	JSON bool `name:"json" help:"Print JSON for programs."`
}

func (c *migrateStatusCmd) Run(inv *invocation) (err error) {
	steps, err := app.SchemaStatus(inv.ctx, c.DataDir, string(c.DatabaseURL))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, steps)
	}
	t := newTable("STEP", "NAME", "APPLIED")
	for _, s := range steps {
		when := cell{"pending", styleYellow}
		if s.AppliedAt != nil {
			when = cell{time.UnixMilli(*s.AppliedAt).Format(time.DateTime), ""}
		}
		t.row(s.Version, s.Name, when)
	}
	return t.print(inv)
}

type migrateUpCmd struct {
	database
	JSON bool `name:"json" help:"Print JSON for programs."`
}

func (c *migrateUpCmd) Run(inv *invocation) error {
	n, err := app.SchemaUp(inv.ctx, c.DataDir, string(c.DatabaseURL))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, map[string]int{"applied": n})
	}
	_, err = fmt.Fprintf(inv.Out, "%s applied.\n", plural(int64(n), "migration"))
	return err
}

type migrateImportCmd struct {
	database
	Source string `arg:"" name:"source" help:"sqlite:FILE, copied into PostgreSQL; or postgresql://USER@HOST/NAME, the earlier implementation's database (its password in PGPASSWORD), copied into a new SQLite file in the data directory, or into PostgreSQL. Stop the server of either first."`
	JSON   bool   `name:"json" help:"Print JSON for programs."`
}

func (c *migrateImportCmd) Run(inv *invocation) error {
	progress := func(table string, rows int64) {
		if inv.ErrTerminal {
			fmt.Fprintf(inv.Err, "\r%-20s %12d rows", table, rows)
		}
	}
	if strings.HasPrefix(c.Source, "postgresql://") || strings.HasPrefix(c.Source, "postgres://") {
		return c.earlier(inv, progress)
	}
	file, ok := strings.CutPrefix(c.Source, "sqlite:")
	if !ok || file == "" {
		return usagef("name the source as sqlite:FILE or postgresql://USER@HOST/NAME")
	}
	done, err := app.ImportSQLite(inv.ctx, file, string(c.DatabaseURL), progress)
	inv.progress("")
	if err != nil {
		return interrupted(inv, err)
	}
	if c.JSON {
		return writeJSON(inv.Out, done)
	}
	t := newTable("TABLE", "ROWS", "SHA-256")
	for _, d := range done {
		t.row(d.Table, d.Rows, d.SHA256)
	}
	if err := t.print(inv); err != nil {
		return err
	}
	inv.say("Copied and verified. Copy the artifacts folder and secret.key, too, then start with DATABASE_URL.")
	return nil
}

// earlier imports the data of the earlier implementation.
func (c *migrateImportCmd) earlier(inv *invocation, progress func(string, int64)) error {
	moved, err := app.ImportEarlier(inv.ctx, c.Source, c.DataDir, string(c.DatabaseURL), progress)
	if c.DatabaseURL != "" {
		inv.progress("")
	}
	if err != nil {
		return interrupted(inv, err)
	}
	if c.JSON {
		return writeJSON(inv.Out, moved)
	}
	t := newTable("TABLE", "READ", "WRITTEN", "NOTE")
	for _, m := range moved {
		t.row(m.Table, m.Rows, m.Written, dash(m.Note))
	}
	if err := t.print(inv); err != nil {
		return err
	}
	inv.say("Tasks that were running are queued again, or dead if that was their last attempt. See docs/optional/migrating.md.")
	return nil
}

type backupCmd struct {
	database
	File string `arg:"" help:"File to write; it must not exist."`
}

func (c *backupCmd) Run(inv *invocation) error {
	if err := app.Backup(inv.ctx, c.DataDir, string(c.DatabaseURL), c.File); err != nil {
		if errors.Is(err, context.Canceled) {
			return interrupted(inv, err)
		}
		return err
	}
	inv.say("Copied the database to %s. Copy the artifacts folder %s, too.", c.File, app.ArtifactsDir(c.DataDir))
	return nil
}
