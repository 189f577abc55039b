package postgres_test

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

func (p *pair) RemoveTasks(ctx context.Context, r bloom.RemoveRequest) (bloom.Removed, error) {
	return p.next().RemoveTasks(ctx, r)
}

func (p *pair) RemoveEvents(ctx context.Context, r bloom.RemoveRequest) (bloom.Removed, error) {
	return p.next().RemoveEvents(ctx, r)
}

func (p *pair) RemoveAudit(ctx context.Context, r bloom.RemoveRequest) (bloom.Removed, error) {
	return p.next().RemoveAudit(ctx, r)
}

func (p *pair) RemovedContent(ctx context.Context, after int64, limit int) ([]bloom.RemovedContent, error) {
	return p.next().RemovedContent(ctx, after, limit)
}

func (p *pair) ForgetContent(ctx context.Context, seqs []int64) error {
	return p.next().ForgetContent(ctx, seqs)
}
