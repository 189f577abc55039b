package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Removable reports whether a task, or its stream, may be removed: it ended before the cutoff (Unix
// milliseconds). An ended task changes only by a requeue, so UpdatedAt is when it ended.
func Removable(t bloom.TaskState, before int64) bool {
	return t.Status.Terminal() && t.UpdatedAt < before
}

// Forgettable reports whether a context may be forgotten: it has no unfinished task and no activity
// since the cutoff (Unix milliseconds).
func Forgettable(x bloom.Context, before int64) bool {
	return x.Unfinished == 0 && x.UpdatedAt < before && x.LastUsedAt < before
}

// RemovalAudit returns the audit entry of a batch that removed something.
func RemovalAudit(action string, r contract.Removed, before int64) bloom.Audit {
	what := strings.TrimSuffix(action, "_removed")
	return bloom.Audit{
		Action: action, EntityType: audit.EntityRetention, EntityID: what, Actor: audit.ActorRetention,
		Detail: fmt.Sprintf("Removed %s from before %s", r, time.UnixMilli(before).UTC().Format(time.RFC3339)),
		Data:   storable.MustJSON(contract.AuditCut{Removed: r, Before: before}),
	}
}
