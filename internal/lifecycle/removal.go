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

// Forgettable reports whether a context may be forgotten: nothing of it is under way, and
// nothing was since the given time (Unix milliseconds).
func Forgettable(x bloom.Context, before int64) bool {
	return x.Unfinished == 0 && x.UpdatedAt < before && x.LastUsedAt < before
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
