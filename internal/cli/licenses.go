package cli

import (
	"embed"
	"errors"
)

// licenses has third-party.txt, if scripts/licenses.sh wrote it before the build.
//
//go:embed all:licenses
var licenses embed.FS

type licensesCmd struct{}

func (*licensesCmd) Run(inv *invocation) error {
	text, err := licenses.ReadFile("licenses/third-party.txt")
	if err != nil {
		return errors.New("this program was built without the licences of its components; make build includes them")
	}
	_, err = inv.Out.Write(text)
	return err
}
