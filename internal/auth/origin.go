package auth

import (
	"net/http"

	"github.com/bloom-runtime/bloom"
)

// Origin refuses cross-origin requests of browsers. Read requests are not checked, so GET handlers
// must not change anything.
type Origin struct{ guard *http.CrossOriginProtection }

// NewOrigin returns an Origin that also allows the trusted origins ("https://example.org").
func NewOrigin(trusted ...string) (*Origin, error) {
	guard := http.NewCrossOriginProtection()
	for _, o := range trusted {
		if err := guard.AddTrustedOrigin(o); err != nil {
			return nil, err
		}
	}
	return &Origin{guard: guard}, nil
}

// Check returns a *bloom.Error of kind Forbidden for a cross-origin request.
func (o *Origin) Check(r *http.Request) error {
	if err := o.guard.Check(r); err != nil {
		return &bloom.Error{Kind: bloom.KindForbidden, Code: "cross_origin",
			Message: "Requests from pages of other origins are not allowed", Cause: err}
	}
	return nil
}
