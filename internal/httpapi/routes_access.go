package httpapi

import (
	"context"
	"net/http"

	"github.com/bloom-runtime/bloom"
)

const (
	keysPath     = runtimePath + "/keys"
	sessionsPath = runtimePath + "/sessions"
)

func (s *Server) accessRoutes() {
	handle(s, route{method: http.MethodGet, path: keysPath, id: "list-keys", summary: "Keys, newest first", tag: "access"},
		func(ctx context.Context, c *call, in *Paging) (*page[bloom.APIKey], error) {
			p, err := in.page()
			if err != nil {
				return nil, err
			}
			keys, next, err := s.auth.Keys(ctx, p)
			return paged(c, keys, next), err
		})
	handle(s, route{method: http.MethodPost, path: keysPath, id: "create-key", summary: "Create a key", tag: "access", status: http.StatusCreated, body: bloom.KeySpec{}},
		func(ctx context.Context, c *call, _ *none) (*reply[bloom.CreatedKey], error) {
			var spec bloom.KeySpec
			if err := s.decode(c, limitBody, &spec); err != nil {
				return nil, err
			}
			made, err := s.auth.CreateKey(ctx, spec, c.caller)
			return &reply[bloom.CreatedKey]{http.StatusCreated, made}, err
		})
	handle(s, route{method: http.MethodDelete, path: keysPath + "/{id}", id: "revoke-key", summary: "Revoke a key; its sessions end", tag: "access"},
		func(ctx context.Context, c *call, in *pathID) (*reply[bloom.APIKey], error) {
			k, err := s.auth.RevokeKey(ctx, in.ID, c.caller)
			return &reply[bloom.APIKey]{http.StatusOK, k}, err
		})
	handle(s, route{method: http.MethodGet, path: sessionsPath, id: "list-sessions", summary: "Sessions of browsers, newest first", tag: "access"},
		func(ctx context.Context, c *call, in *Paging) (*page[bloom.BrowserSession], error) {
			p, err := in.page()
			if err != nil {
				return nil, err
			}
			sessions, next, err := s.auth.Sessions(ctx, p)
			return paged(c, sessions, next), err
		})
	handle(s, route{method: http.MethodDelete, path: sessionsPath + "/{id}", id: "end-session", summary: "End a session", tag: "access"},
		func(ctx context.Context, c *call, in *pathID) (*reply[ended], error) {
			err := s.auth.EndSession(ctx, in.ID, c.caller)
			return &reply[ended]{http.StatusOK, ended{true, in.ID}}, err
		})
	handle(s, route{method: http.MethodPost, path: runtimePath + "/secrets/rotate", id: "rotate-secrets", tag: "access", body: rotateBody{},
		summary: "Encrypt the secrets in the database with a new key; sessions end unless the old key is kept"},
		func(ctx context.Context, c *call, _ *none) (*reply[bloom.SecretRotation], error) {
			var b rotateBody
			if err := s.decode(c, limitBody, &b); err != nil {
				return nil, err
			}
			done, err := s.svc.RotateSecrets(ctx, b.KeepOld, c.caller.Name)
			return &reply[bloom.SecretRotation]{http.StatusOK, done}, err
		})
}

type rotateBody struct {
	KeepOld bool `json:"keep_old,omitempty" doc:"Keep the earlier key for decryption until the next rotation, for replicas that do not have the new one yet"`
}

// ended is the response to the end of a session.
type ended struct {
	Ended bool   `json:"ended"`
	ID    string `json:"id"`
}
