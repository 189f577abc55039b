package auth

import (
	"net/http"

	"github.com/bloom-runtime/bloom"
)

// Origin refuses requests that a page of another origin made the browser send.
// Requests that only read are never checked: keep GET pure.
type Origin struct{ guard *http.CrossOriginProtection }

// NewOrigin makes a guard that also lets the trusted origins
// ("https://example.org") in.
func NewOrigin(trusted ...string) (*Origin, error) {
	guard := http.NewCrossOriginProtection()
	for _, o := range trusted {
		if err := guard.AddTrustedOrigin(o); err != nil {
			return nil, err
		}
	}
	return &Origin{guard: guard}, nil
}

// Check is a *bloom.Error of kind Forbidden for a cross-origin request.
func (o *Origin) Check(r *http.Request) error {
	if err := o.guard.Check(r); err != nil {
		return &bloom.Error{Kind: bloom.KindForbidden, Code: "cross_origin",
			Message: "A page of another origin may not do that", Cause: err}
	}
	return nil
}
