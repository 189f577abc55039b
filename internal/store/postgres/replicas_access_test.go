package postgres_test

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func (p *pair) CreateKey(ctx context.Context, k contract.StoredKey, actor string) (bloom.APIKey, error) {
	return p.next().CreateKey(ctx, k, actor)
}
func (p *pair) Key(ctx context.Context, id string) (contract.StoredKey, error) {
	return p.next().Key(ctx, id)
}
func (p *pair) Keys(ctx context.Context, page bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	return p.next().Keys(ctx, page)
}
func (p *pair) AnyKey(ctx context.Context) (bool, error) { return p.next().AnyKey(ctx) }
func (p *pair) RevokeKey(ctx context.Context, id, actor string) (bloom.APIKey, error) {
	return p.next().RevokeKey(ctx, id, actor)
}
func (p *pair) CreateSession(ctx context.Context, x bloom.BrowserSession, life time.Duration, actor string) (contract.StoredSession, error) {
	return p.next().CreateSession(ctx, x, life, actor)
}
func (p *pair) Session(ctx context.Context, id string) (contract.StoredSession, error) {
	return p.next().Session(ctx, id)
}
func (p *pair) Sessions(ctx context.Context, page bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	return p.next().Sessions(ctx, page)
}
func (p *pair) RenewSession(ctx context.Context, id string, turn int64, life time.Duration) (contract.StoredSession, error) {
	return p.next().RenewSession(ctx, id, turn, life)
}
func (p *pair) EndSession(ctx context.Context, id, actor string) error {
	return p.next().EndSession(ctx, id, actor)
}
func (p *pair) NoteUse(ctx context.Context, keys, sessions map[string]int64) error {
	return p.next().NoteUse(ctx, keys, sessions)
}
