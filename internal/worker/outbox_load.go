package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func (o *outbox) path(leaseID string) string {
	return filepath.Join(o.dir, filepath.Base(leaseID)+".json")
}

// load reads the outcomes that an earlier process did not deliver. A file that cannot
// be decoded is moved to refused/, not deleted: it may be the only copy of an outcome.
func (o *outbox) load() ([]*delivery, error) {
	paths, err := filepath.Glob(filepath.Join(o.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var deliveries []*delivery
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("worker: read the outbox: %w", err)
		}
		d := new(delivery)
		if err := json.Unmarshal(raw, d); err != nil || d.LeaseID == "" || d.TaskID == "" {
			o.log.Error("an outcome on disk cannot be decoded; it is moved to refused/", "file", filepath.Base(path), "error", err)
			_ = os.Rename(path, filepath.Join(o.dir, "refused", filepath.Base(path)))
			continue
		}
		if own := o.path(d.LeaseID); own != path { // an operator moved it back from refused/
			if err := os.Rename(path, own); err != nil {
				return nil, fmt.Errorf("worker: read the outbox: %w", err)
			}
			d.Refused = ""
		}
		deliveries = append(deliveries, d)
		o.mu.Lock()
		o.pending[d.LeaseID] = d
		o.mu.Unlock()
	}
	return deliveries, nil
}
