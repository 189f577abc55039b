package cli

import (
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

type secretsCmd struct {
	Rotate secretsRotateCmd `cmd:"" help:"Encrypt the secrets in the database under a new key."`
}

type secretsRotateCmd struct {
	keyring
	config.Sealing
	consent
	KeepOld bool `name:"keep-old" help:"Keep the earlier key for decryption until the next rotation: for replicas that do not have the new file yet, and to keep users signed in."`
}

func (c *secretsRotateCmd) Run(inv *invocation) error {
	if !c.KeepOld {
		if err := c.ask(inv, "Make the earlier key useless and sign all users out"); err != nil {
			return err
		}
	}
	var done bloom.SecretRotation
	err := c.do(inv, func(api *client.Client) (err error) {
		done, err = api.RotateSecrets(inv.ctx, c.KeepOld)
		return err
	}, func(store contract.Store) error {
		if err := c.Finish(); err != nil {
			return usage(err)
		}
		seal, err := app.OpenSealer(c.Sealing, c.DataDir)
		if err != nil {
			return err
		}
		done, err = dispatch.RotateSecrets(inv.ctx, store, seal, c.KeepOld, "bloom secrets rotate --offline")
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, done)
	}
	text := "the earlier key is no longer accepted; users have to sign in again"
	if done.KeptOld {
		text = "the earlier key still decrypts until the next rotation"
	}
	_, err = fmt.Fprintf(inv.Out, "Encrypted %d secrets under a new key; %s.\n", done.Secrets, text)
	return err
}
