package app

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// settingInstallation is the setting with the installation's id.
const settingInstallation = "installation"

// installation identifies the servers that share a database, and those of its copies. It separates
// their content from that of others in the same bucket or folder.
type installation struct {
	id    string
	since time.Time
}

func (i installation) area() blob.Area { return blob.InstallationArea(i.id) }

// openInstallation reads the id from the database, or creates it.
func openInstallation(ctx context.Context, store contract.Store) (i installation, err error) {
	for range 2 { // another server may create it at the same time
		settings, err := store.Settings(ctx)
		if err != nil {
			return i, err
		}
		if i.id = settings[settingInstallation]; i.id != "" {
			break
		}
		id, err := uuid.NewV7()
		if err != nil {
			return i, err
		}
		if err := store.ReplaceSettings(ctx, map[string]string{settingInstallation: ""}, map[string]string{settingInstallation: id.String()}, bloom.Audit{}); err != nil && bloom.KindOf(err) != bloom.KindConflict {
			return i, err
		}
	}
	id, err := uuid.Parse(i.id)
	if err != nil {
		return i, fmt.Errorf("the installation's id in the database: %q is no UUID", i.id)
	}
	seconds, nanos := id.Time().UnixTime()
	i.id, i.since = id.String(), time.Unix(seconds, nanos)
	return i, nil
}
