package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

func TestKeysAreCreatedListedAndRevokedAtAServer(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	made := p.run("keys", "create", "--role", "viewer", "--name", "wall board", "--expires", "90d")
	key := strings.TrimSpace(made.out)
	if made.code != 0 || !strings.HasPrefix(key, "blm_") || strings.Contains(made.err, key) || !strings.Contains(made.err, "viewer key") {
		t.Fatalf("create: %+v", made)
	}
	id := strings.Split(key, "_")[1]
	viewer := newPerson(t, rt)
	viewer.env["BLOOM_API_KEY"] = key
	if got := viewer.run("stats"); got.code != 0 {
		t.Errorf("the key does not open what its role admits: %+v", got)
	}
	if got := viewer.run("keys", "list"); got.code == 0 {
		t.Errorf("a viewer sees the keys: %+v", got)
	}
	if got := p.run("keys"); got.code != 0 || !strings.Contains(got.out, id) || !strings.Contains(got.out, "wall board") || strings.Contains(got.out, key) {
		t.Errorf("list: %+v", got)
	}
	if got := p.run("keys", "revoke", id); got.code != 0 || !strings.Contains(got.out, "Revoked viewer key "+id) {
		t.Errorf("revoke: %+v", got)
	}
	if got := viewer.run("stats"); got.code == 0 || !strings.Contains(got.err, "revoked") {
		t.Errorf("a revoked key: %+v", got)
	}
	if got := p.run("keys", "revoke", "aaaaaaaaaaaaaaaa"); got.code == 0 || !strings.Contains(got.err, "Key not found: aaaaaaaaaaaaaaaa") {
		t.Errorf("revoke an unknown key: %+v", got)
	}
}

// Two with the same name are distinguished by their keys.
func TestTheAuditShowsTheKeyOfAChange(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	p.must("keys", "create", "--role", "viewer", "--name", "x")
	clerk := newPerson(t, rt)
	clerk.env["BLOOM_API_KEY"] = strings.TrimSpace(p.must("keys", "create", "--role", "client", "--name", "admin"))
	clerk.must("task", "submit", "--context", "c", "--agent", "a", "do it")
	keys := map[string]bool{}
	for line := range strings.Lines(p.must("audit")) {
		if fields := strings.Fields(line); len(fields) > 6 && fields[5] == "admin" {
			keys[fields[6]] = true
		}
	}
	if id := strings.Split(clerk.env["BLOOM_API_KEY"], "_")[1]; len(keys) != 2 || !keys[id] {
		t.Errorf("keys of changes by admin: %v, want %s and the server's own", keys, id)
	}
}

func TestTheFirstKeyIsMadeWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newPerson(t, nil)
	if got := p.run("keys", "create", "--data-dir", dir, "--role", "client", "--name", "ci"); got.code == 0 || !strings.Contains(got.err, "first key must be an admin key") {
		t.Errorf("a first key that is no admin's: %+v", got)
	}
	made := p.run("keys", "create", "--data-dir", dir, "--role", "admin", "--name", "ann", "--json")
	var k bloom.CreatedKey
	if err := json.Unmarshal([]byte(made.out), &k); err != nil || made.code != 0 || k.Role != bloom.RoleAdmin || !strings.HasPrefix(k.Key, "blm_"+k.ID+"_") || k.CreatedBy != "bloom keys --offline" {
		t.Fatalf("create: %+v, %v", made, err)
	}
	if got := p.run("keys", "create", "--data-dir", dir, "--role", "worker", "--name", "node 1", "--worker", "node-1"); got.code != 0 {
		t.Errorf("a second key: %+v", got)
	}
	if got := p.run("keys", "list", "--data-dir", dir); got.code != 0 || !strings.Contains(got.out, k.ID) || !strings.Contains(got.out, "node-1") {
		t.Errorf("list: %+v", got)
	}
	if got := p.run("keys", "revoke", "--data-dir", dir, k.ID); got.code != 0 {
		t.Errorf("revoke: %+v", got)
	}
}

func TestKeyArgumentsThatAreRefused(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	for want, args := range map[string][]string{
		"--role":              {"--name", "n"},
		"--name":              {"--role", "admin"},
		"worker":              {"--role", "admin", "--name", "n", "--worker", "w"},
		"is not one of admin": {"--role", "root", "--name", "n"},
		"age like 30d":        {"--role", "admin", "--name", "n", "--expires", "soon"},
		"name must have":      {"--role", "admin", "--name", "a\tb"},
	} {
		if got := p.run(append([]string{"keys", "create"}, args...)...); got.code == 0 || !strings.Contains(got.err, want) {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestSecretsAreRotatedAtAServerAndWithoutOne(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	if got := p.run("secrets", "rotate"); got.code != 0 || !strings.Contains(got.out, "Encrypted 0 secrets under a new key") || !strings.Contains(got.out, "sign in again") {
		t.Errorf("at a server: %+v", got)
	}
	dir := t.TempDir()
	alone := newPerson(t, nil)
	if got := alone.run("secrets", "rotate", "--data-dir", dir, "--keep-old", "--json"); got.code != 0 || strings.TrimSpace(got.out) == "" || !strings.Contains(got.out, `"kept_old": true`) {
		t.Errorf("without a server: %+v", got)
	}
	alone.env["BLOOM_SECRET_KEY"] = "short"
	if got := alone.run("secrets", "rotate", "--data-dir", dir); got.code != 2 || !strings.Contains(got.err, "BLOOM_SECRET_KEY: a key must have 64 hexadecimal digits") {
		t.Errorf("a key that is none: %+v", got)
	}
}
