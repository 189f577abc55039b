package bench

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/bloom-runtime/bloom/client"
)

// Unlimited returns an error if the server limits the requests of the key, because a
// benchmark would then measure the limit. It ignores other errors: the measurement
// reports them better.
func Unlimited(ctx context.Context, api *client.Client, key string) error {
	ctx, cancel := context.WithTimeout(ctx, wireTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api.BaseURL()+"/session", nil)
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("X-Runtime-API-Key", key)
	}
	// A redirect would carry the key to wherever it points.
	direct := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := direct.Do(req)
	if err != nil {
		return nil //nolint:nilerr // the measurement reports it better
	}
	_ = resp.Body.Close()
	policy := resp.Header.Get("RateLimit-Policy")
	if !strings.HasPrefix(policy, `"key";`) {
		return nil
	}
	return fmt.Errorf("the server limits this key (RateLimit-Policy: %s), and that limit is what would be measured; "+
		"start the server to be measured with --rate-limit-key=0", policy)
}
