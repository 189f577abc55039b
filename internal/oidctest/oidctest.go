// Package oidctest is a small OpenID provider for tests: it signs in the configured
// users, and checks what RFC 6749, RFC 7636 and OpenID Connect Core ask of a client.
package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// ClientID is the id of the only client it knows.
const ClientID = "bloom"

// Provider is a running one. Its fields are set before somebody signs in.
type Provider struct {
	testing.TB

	URL    string
	Secret string           // of the client
	Claims map[string]any   // of the next token, over those that it makes
	Change func(url.Values) // spoils the answer to an authorization request; may be nil
	Server string           // where to send people back to, in place of redirect_uri's host; "" leaves it
	Broken bool             // the token endpoint fails
	Asked  url.Values       // the last authorization request

	signer jose.Signer
	public jose.JSONWebKey
	codes  map[string]string // challenge by code
}

// Start starts a Provider that ends with the test.
func Start(t testing.TB) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{TB: t, Secret: "client-secret", signer: signer, codes: map[string]string{},
		public: jose.JSONWebKey{Key: key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.write(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"jwks_uri": p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.write(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.public}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

func (p *Provider) write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.Error(err)
	}
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.Asked = q
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || !strings.Contains(q.Get("scope"), "openid") {
		p.Errorf("asked for %v (%v)", q, err)
		return
	}
	if server, err := url.Parse(p.Server); err == nil && p.Server != "" {
		back.Scheme, back.Host = server.Scheme, server.Host
	}
	code := rand.Text()
	p.codes[code] = q.Get("code_challenge")
	answer := url.Values{"code": {code}, "state": {q.Get("state")}}
	if p.Change != nil {
		p.Change(answer)
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // it serves one test
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if p.Broken {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if id != ClientID || secret != p.Secret || base64.RawURLEncoding.EncodeToString(sum[:]) != p.codes[r.FormValue("code")] {
		w.WriteHeader(http.StatusBadRequest)
		p.write(w, map[string]any{"error": "invalid_grant"})
		return
	}
	delete(p.codes, r.FormValue("code")) // good once
	claims := map[string]any{"iss": p.URL, "aud": ClientID, "sub": "u-17", "nonce": p.Asked.Get("nonce"),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	for k, v := range p.Claims {
		claims[k] = v
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		p.Error(err)
	}
	signed, err := p.signer.Sign(raw)
	if err != nil {
		p.Error(err)
		return
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		p.Error(err)
	}
	p.write(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": token})
}
