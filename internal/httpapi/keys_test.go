package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// madeKey is blm_ID_SECRET; the secret is 52 characters of 5 bits, so 256 bits.
var madeKey = regexp.MustCompile(`^blm_([a-z2-7]{16})_([a-z2-7]{52})$`)

// A key is shown once, to the caller that creates it.
func TestACreatedKeyIsRandomAndOnlyItsDigestIsStored(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	secrets := map[string]bool{}
	for range 20 {
		made := r.newKey(auth.RoleViewer)
		parts := madeKey.FindStringSubmatch(made.Key)
		if parts == nil || parts[1] != made.ID || secrets[parts[2]] {
			t.Fatalf("made %s of %s", made.Key, made.ID)
		}
		secrets[parts[2]] = true
		r.call(200, nil, "GET", "/stats", "", auth.HeaderKey, made.Key)
		sum := sha256.Sum256([]byte(made.Key))
		if !r.onDisk(hex.EncodeToString(sum[:])) {
			t.Fatal("the digest of the key is not in the database: where is the key?")
		}
	}
	list := r.call(200, nil, "GET", "/keys", "")
	audit := r.call(200, nil, "GET", "/audit?limit=1000", "")
	for secret := range secrets {
		if strings.Contains(string(list.body)+string(audit.body)+r.log.String(), secret) {
			t.Error("a secret is shown again")
		}
		r.wantNoSecretOnDisk(secret)
	}
}

// onDisk reports whether a file of the server contains the text.
func (r *fixture) onDisk(text string) (found bool) {
	r.t.Helper()
	must(r.t, filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		found = found || strings.Contains(string(raw), text)
		return err
	}))
	return found
}

// Guesses at a key's secret, known id or not, are limited to ten a minute; the owner of the key is
// not limited.
func TestGuessesAtAKeyAreSlowedAndItsHolderIsNot(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	held := r.newKey(auth.RoleViewer).Key
	for _, id := range []string{held[:len("blm_")+16], "blm_aaaaaaaaaaaaaaaa"} {
		guess := id + "_" + strings.Repeat("a", 52)
		refused := 0
		for range 25 {
			switch f := r.do("GET", "/api/runtime/stats", "", auth.HeaderKey, guess); f.status {
			case 401:
				refused++
			case 429:
			default:
				t.Fatalf("a guess is answered with %d %s", f.status, f.body)
			}
		}
		if refused < 10 || refused > 15 { // a few more, because time passes
			t.Errorf("%d guesses at %s were looked at", refused, id)
		}
		for tries := 0; ; tries++ { // one more may be due by now
			if a := r.do("GET", "/api/runtime/stats", "", auth.HeaderKey, guess); a.status == 429 {
				break
			} else if tries == 3 {
				t.Errorf("further guesses at %s are answered with %d %s", id, a.status, a.body)
				break
			}
		}
	}
	r.call(200, nil, "GET", "/stats", "", auth.HeaderKey, held)
}

// A worker's file names never determine an object's key: the server builds keys from its own ids
// only.
func TestObjectsAreNamedByTheServerAlone(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { d.MaxFile = 1 << 20 })
	r.worker("w1", 1)
	task := r.task("")
	lease := r.lease(task.ID).Lease.ID
	at := func(path string) string {
		return "/llm-tasks/" + task.ID + "/artifacts?lease_id=" + lease + "&sha256=" + sumOf("x") + "&path=" + url.QueryEscape(path)
	}
	for _, path := range []string{"../x", "/etc/x", "a/../../x", `a\..\x`, "a/./b", "a//b", "a\x00b", ".", ".."} {
		r.fails(400, "invalid_request", "PUT", at(path), "x", "Content-Type", "application/octet-stream")
	}
	for _, path := range []string{"CON", "nul.txt", "aux/COM1", ".put-evil", "-rf", "x;reboot", "$(reboot)", "sub/ünï code.txt"} {
		r.call(200, nil, "PUT", at(path), "x", "Content-Type", "application/octet-stream")
	}
	large := strings.Repeat("o", contract.InlineContentLimit+1)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", string(storable.MustJSON(bloom.Completion{LeaseID: lease, Status: "success", Output: &large})))
	ours := regexp.MustCompile(`^\d{8}/artifacts/` + task.ID + `/[0-9a-f-]+$`)
	found := 0
	must(t, filepath.WalkDir(filepath.Join(r.dir, "artifacts"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		key, err := filepath.Rel(filepath.Join(r.dir, "artifacts"), path)
		if found++; !ours.MatchString(key) {
			t.Errorf("an object is called %s", key)
		}
		return err
	}))
	if found != 9 {
		t.Errorf("%d objects were made", found)
	}
}
