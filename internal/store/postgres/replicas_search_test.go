package postgres_test

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func (p *pair) HeldBack(ctx context.Context, gate contract.Gate, most int) (contract.HeldBack, error) {
	return p.next().HeldBack(ctx, gate, most)
}
func (p *pair) ReportLogs(ctx context.Context, id string, r bloom.LogReport) error {
	return p.next().ReportLogs(ctx, id, r)
}
func (p *pair) WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error) {
	return p.next().WorkerLogs(ctx, id)
}
func (p *pair) IndexTasks(ctx context.Context, read contract.ReadContent) (int, bool, error) {
	return p.next().IndexTasks(ctx, read)
}
func (p *pair) TaskTexts(ctx context.Context, ids []string) ([]contract.TaskText, error) {
	return p.next().TaskTexts(ctx, ids)
}
