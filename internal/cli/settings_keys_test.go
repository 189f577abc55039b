package cli_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"

	"github.com/bloom-runtime/bloom/internal/oidctest"
)

func keyScenes() map[string]scene {
	opens := func(key, role string) func(*stage) {
		return func(s *stage) {
			stats, tasks := s.url()+"/api/runtime/stats", s.url()+"/api/runtime/llm-tasks"
			s.wants(401, "GET", stats, "", "X-Runtime-API-Key", key+"x")
			s.wants(map[string]int{"admin": 400, "worker": 403}[role], "POST", tasks, "{}", "X-Runtime-API-Key", key)
		}
	}
	return map[string]scene{
		"keys": {roles: servers, sets: []set{
			{"--runtime-api-key", serverKey, opens(serverKey, "admin")},
			{"--runtime-worker-key", workerKey, opens(workerKey, "worker")},
		}},
		"keys in files": {roles: servers, before: func(s *stage) { s.file("worker-key", workerKey) }, sets: []set{
			{"--runtime-api-key-file", "{dir}/key", opens(fileKey, "admin")},
			{"--runtime-worker-key-file", "{dir}/worker-key", opens(workerKey, "worker")},
		}},
		"key of secrets": {roles: servers, sets: []set{
			{"--secret-key", strings.Repeat("0a", 32), func(s *stage) {
				if found := s.keyFiles(); len(found) > 0 {
					s.Errorf("keys are kept in %v", found)
				}
			}},
		}},
		"sign-in provider": {roles: servers, before: withProvider, sets: []set{
			{"--oidc-issuer", "{issuer}", signsIn},
			{"--oidc-client-id", oidctest.ClientID, signsIn},
			{"--oidc-client-secret", "an-unusual-secret", signsIn},
			{"--oidc-redirect-url", "http://127.0.0.1:7/api/runtime/session/oidc/callback", func(s *stage) {
				if got := s.provider.Asked.Get("redirect_uri"); got != "http://127.0.0.1:7/api/runtime/session/oidc/callback" {
					s.Error(got)
				}
			}},
			{"--oidc-scope", "unusual", func(s *stage) {
				if got := s.provider.Asked.Get("scope"); got != "openid unusual" {
					s.Error(got)
				}
			}},
			{"--oidc-claim", "unusual.claim", signsIn},
			{"--oidc-role", "client=unusual group", signsIn},
		}},
		"sign-in provider's secret in a file": {roles: servers, before: withProvider, also: []string{"--oidc-issuer={issuer}", "--oidc-client-id=" + oidctest.ClientID,
			"--oidc-redirect-url=http://127.0.0.1:7/api/runtime/session/oidc/callback", "--oidc-claim=unusual.claim", "--oidc-role=client=unusual group"}, sets: []set{
			{"--oidc-client-secret-file", "{dir}/oidc-secret", signsIn},
		}},
		"key file of secrets": {roles: servers, sets: []set{
			{"--secret-key-file", "{dir}/unusual-secret.key", func(s *stage) {
				if found := s.keyFiles(); len(found) != 1 || found[0] != s.dir+"/unusual-secret.key" {
					s.Errorf("keys are kept in %v", found)
				}
			}},
		}},
		"no keys": {roles: servers, sets: []set{{"--insecure-no-auth", "", func(s *stage) {
			s.wants(200, "GET", s.url()+"/api/runtime/stats", "", "X-Forwarded-For", "203.0.113.7") // refused in development mode
			s.says(`INSECURE: --insecure-no-auth`)
			for path, part := range map[string]string{"/health": `"auth":"insecure"`, "/metrics": `bloom_auth_mode{mode="insecure"} 1`} {
				if _, text := s.call("GET", s.url()+path, ""); !strings.Contains(text, part) {
					s.Errorf("%s does not say %s: %s", path, part, text)
				}
			}
		}}}},
	}
}

// withProvider starts a sign-in provider for {issuer}, whose client has an unusual secret.
func withProvider(s *stage) {
	s.provider = oidctest.Start(s)
	s.provider.Secret = "an-unusual-secret"
	s.provider.Claims = map[string]any{"name": "Ann", "unusual": map[string]any{"claim": []string{"unusual group"}}}
	s.file("oidc-secret", s.provider.Secret)
	s.values = strings.NewReplacer(append(s.pairs, "{issuer}", s.provider.URL)...)
}

// signsIn checks that the provider's user gets the role of the group, which requires the right
// client, secret, claim and rule.
func signsIn(s *stage) {
	s.provider.Server = s.url()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	for _, path := range []string{"/api/runtime/session/oidc?to=/health", "/api/runtime/session"} {
		res, err := browser.Get(s.url() + path)
		if err != nil {
			s.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			s.Fatal(err)
		}
		if path == "/api/runtime/session" && !strings.Contains(string(text), `"role":"client"`) {
			s.Errorf("%s", text)
		}
	}
}

// keyFiles returns the files with encryption keys.
func (s *stage) keyFiles() (found []string) {
	s.wants(200, "GET", s.url()+"/api/runtime/session", "") // waits until the server has started
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, "secret.key") {
			found = append(found, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Fatal(err)
	}
	return found
}
