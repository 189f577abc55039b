package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Create a key and print it. It is shown only once."`
	List   keysListCmd   `cmd:"" default:"withargs" help:"List keys."`
	Rm     keysRmCmd     `cmd:"" help:"Revoke a key; servers refuse it within 5 seconds."`
}

// keyring selects where commands about keys and secrets find them: at a running server, or directly
// in a database.
type keyring struct {
	remote
	database `group:"Without a server:"`
	Offline  bool `name:"offline" group:"Without a server:" help:"Use the database (--data-dir or --database-url) directly; stop the server of a SQLite database first. Implied by --data-dir alone."`
}

// onDatabase reports whether the command works without a server.
func (c *keyring) onDatabase(inv *invocation) bool {
	return c.Offline || inv.sources.Of("data_dir", "BLOOM_DATA_DIR") == config.FromFlag || inv.sources.Of("database_url", "DATABASE_URL") == config.FromFlag
}

// do runs one of the two functions and closes what it opened.
func (c *keyring) do(inv *invocation, server func(*client.Client) error, database func(contract.Store) error) (err error) {
	if !c.onDatabase(inv) {
		api, err := c.open()
		if err != nil {
			return err
		}
		return server(api)
	}
	fresh, err := app.Fresh(c.DataDir, string(c.DatabaseURL))
	if err != nil {
		return err
	}
	store, err := app.OpenDatabase(inv.ctx, c.DataDir, string(c.DatabaseURL))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if fresh {
		fmt.Fprintf(inv.Err, "Created a new database in %s.\n", clean(c.DataDir, false))
	}
	return database(store)
}

// offlineActor is the actor in the audit of changes made without a server.
const offlineActor = "bloom keys --offline"

type keysCreateCmd struct {
	keyring
	Role    string      `name:"role" required:"" enum:"admin,client,worker,approver,viewer" placeholder:"ROLE" help:"What the key may do: admin, client, worker, approver, viewer."`
	Name    string      `name:"name" required:"" placeholder:"NAME" help:"Owner of the key; the audit log shows it."`
	Expires *config.Age `name:"expires" placeholder:"AGE" help:"How long the key is valid, for example 90d or 12h; default: until it is revoked."`
	Worker  string      `name:"worker" placeholder:"NAME" help:"Bind a worker key to this worker: it then acts only as that worker."`
}

func (c *keysCreateCmd) Run(inv *invocation) error {
	spec := bloom.KeySpec{Name: c.Name, Role: bloom.Role(c.Role), WorkerID: c.Worker}
	now := time.Now()
	if c.Expires != nil {
		if *c.Expires == 0 {
			return usagef("--expires: must be longer than 0; leave it out for a key that does not expire")
		}
		spec.ExpiresAt = timing.Millis(now.Add(time.Duration(*c.Expires)))
	}
	var made bloom.CreatedKey
	err := c.do(inv, func(api *client.Client) (err error) {
		made, err = api.CreateKey(inv.ctx, spec)
		return err
	}, func(store contract.Store) (err error) {
		made, err = auth.CreateKey(inv.ctx, store, spec, offlineActor, timing.Millis(now), false)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, made)
	}
	if _, err := fmt.Fprintln(inv.Out, made.Key); err != nil {
		return err
	}
	// On standard error, so that standard output has only the key.
	fmt.Fprintf(inv.Err, "Created %s key %s (%s). It is shown only once: store it in a file with mode 0600.\n", made.Role, made.ID, clean(made.Name, false))
	return nil
}

type keysListCmd struct{ keyring }

func (c *keysListCmd) Run(inv *invocation) error {
	keys := []bloom.APIKey{}
	all := func(read func(context.Context, bloom.Page) ([]bloom.APIKey, bloom.Cursor, error)) error {
		p := bloom.Page{Limit: bloom.MaxPageSize}
		for {
			more, next, err := read(inv.ctx, p)
			if err != nil {
				return err
			}
			keys = append(keys, more...)
			if next == (bloom.Cursor{}) {
				return nil
			}
			p.Cursor = next
		}
	}
	if err := c.do(inv, func(api *client.Client) error { return all(api.Keys) }, func(store contract.Store) error { return all(store.Keys) }); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, keys)
	}
	now := time.Now()
	t := newTable("ID", "NAME", "ROLE", "WORKER", "STATUS", "CREATED", "EXPIRES", "LAST USED")
	for _, k := range keys {
		expires := "never"
		if k.ExpiresAt != nil {
			expires = ago(now, *k.ExpiresAt)
		}
		t.row(k.ID, k.Name, k.Role, dash(deref(k.WorkerID)), keyStatus(k), ago(now, k.CreatedAt), expires, ago(now, deref(k.LastUsedAt)))
	}
	return t.print(inv)
}

func keyStatus(k bloom.APIKey) cell {
	if k.Status == bloom.KeyActive {
		return cell{k.Status, styleGreen}
	}
	return cell{k.Status, styleYellow}
}

type keysRmCmd struct {
	keyring
	consent
	ID string `arg:"" help:"The key's id, from bloom keys list."`
}

func (c *keysRmCmd) Run(inv *invocation) error {
	if err := c.ask(inv, "Revoke the key "+c.ID); err != nil {
		return err
	}
	var k bloom.APIKey
	err := c.do(inv, func(api *client.Client) (err error) {
		k, err = api.RevokeKey(inv.ctx, c.ID)
		return err
	}, func(store contract.Store) (err error) {
		k, err = store.RevokeKey(inv.ctx, storable.Text(c.ID), offlineActor)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, k)
	}
	_, err = fmt.Fprintf(inv.Out, "Revoked %s key %s (%s).\n", k.Role, k.ID, clean(k.Name, false))
	return err
}
