package postgres_test

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func (p *pair) RemoveTasks(ctx context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	return p.next().RemoveTasks(ctx, r)
}

func (p *pair) RemoveEvents(ctx context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	return p.next().RemoveEvents(ctx, r)
}

func (p *pair) RemoveAudit(ctx context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	return p.next().RemoveAudit(ctx, r)
}

func (p *pair) RemoveContexts(ctx context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	return p.next().RemoveContexts(ctx, r)
}

func (p *pair) RemoveForgotten(ctx context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	return p.next().RemoveForgotten(ctx, r)
}

func (p *pair) RemovedContent(ctx context.Context, after int64, limit int) ([]contract.RemovedContent, error) {
	return p.next().RemovedContent(ctx, after, limit)
}

func (p *pair) ConfirmDeleted(ctx context.Context, seqs []int64) error {
	return p.next().ConfirmDeleted(ctx, seqs)
}

func (p *pair) AddArtifact(ctx context.Context, n contract.NewArtifact) (bloom.Artifact, bool, error) {
	return p.next().AddArtifact(ctx, n)
}

func (p *pair) DueRunLogs(ctx context.Context, after int64, limit int) ([]string, int64, error) {
	return p.next().DueRunLogs(ctx, after, limit)
}

func (p *pair) UnarchivedStreams(ctx context.Context, r contract.RemoveRequest) (ids []string, next int64, more bool, err error) {
	return p.next().UnarchivedStreams(ctx, r)
}

func (p *pair) ArchivedTo(ctx context.Context, taskID string) (int64, error) {
	return p.next().ArchivedTo(ctx, taskID)
}

func (p *pair) AddRunLogs(ctx context.Context, r contract.AddRunLogs) error {
	return p.next().AddRunLogs(ctx, r)
}

func (p *pair) WaitingContent(ctx context.Context) (int64, error) {
	return p.next().WaitingContent(ctx)
}

func (p *pair) Transcripts(ctx context.Context, after string, limit int, local bool) ([]contract.ContextTranscript, error) {
	return p.next().Transcripts(ctx, after, limit, local)
}

func (p *pair) MovePart(ctx context.Context, contextID, from, to string) error {
	return p.next().MovePart(ctx, contextID, from, to)
}
