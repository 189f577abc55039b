package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Removable reports whether a task may be removed, or its stream: it has ended,
// and did so before the given time (Unix milliseconds). An ended task changes
// only by a requeue, so UpdatedAt is when it ended.
func Removable(t bloom.TaskState, before int64) bool {
	return t.Status.Terminal() && t.UpdatedAt < before
}

// RemovalAudit is the entry of a batch that removed something.
func RemovalAudit(action string, r bloom.Removed, before int64) bloom.Audit {
	what := strings.TrimSuffix(action, "_removed")
	return bloom.Audit{
		Action: action, EntityType: bloom.EntityRetention, EntityID: what, Actor: bloom.ActorRetention,
		Detail: fmt.Sprintf("Removed %s of before %s", r, time.UnixMilli(before).UTC().Format(time.RFC3339)),
		Data:   bloom.MustJSON(bloom.AuditCut{Removed: r, Before: before}),
	}
}
