package auth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keyless is a store without keys.
type keyless struct{ contract.AccessStore }

func (keyless) AnyKey(context.Context) (bool, error)         { return false, nil }
func (keyless) Subscribe(func([]bloom.Change)) (stop func()) { return func() {} }

func TestConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	long := "0123456789abcdef"
	for name, test := range map[string]struct {
		config auth.Config
		want   string // part of the error; empty: accepted
		mode   auth.Mode
	}{
		"no key on loopback is development":     {auth.Config{LoopbackOnly: true}, "", auth.ModeDevelopment},
		"no key elsewhere":                      {auth.Config{}, "RUNTIME_API_KEY", ""},
		"no key elsewhere, in a closed lab":     {auth.Config{InsecureNoAuth: true}, "", auth.ModeInsecure},
		"a key":                                 {auth.Config{AdminKey: long}, "", auth.ModeKeys},
		"a short key":                           {auth.Config{AdminKey: "t1ny", LoopbackOnly: true}, "shorter than 16", ""},
		"a short worker key":                    {auth.Config{AdminKey: long, WorkerKey: "short"}, "RUNTIME_WORKER_KEY", ""},
		"a worker key alone":                    {auth.Config{WorkerKey: long, LoopbackOnly: true}, "RUNTIME_API_KEY", ""},
		"the same key for both":                 {auth.Config{AdminKey: long, WorkerKey: long}, "the same", ""},
		"a key with a line break from its file": {auth.Config{AdminKey: long + "\n"}, "white space", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := auth.New(test.config)
			if err == nil {
				err = a.Open(t.Context(), keyless{}, nil, timing.System{})
			}
			switch {
			case test.want == "" && err != nil:
				t.Fatal(err)
			case test.want == "" && a.Mode() != test.mode:
				t.Fatalf("mode %s, want %s", a.Mode(), test.mode)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Fatalf("error %v, want one about %q", err, test.want)
			}
			if err != nil && test.config.AdminKey != "" && strings.Contains(err.Error(), test.config.AdminKey) {
				t.Fatal("the error shows the key")
			}
		})
	}
}

func TestSealedSecretsOpenOnlyWithTheirKeyAndName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := auth.OpenSealer(filepath.Join(dir, auth.SealKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := first.Seal("name", "the secret")
	if err != nil || strings.Contains(sealed, "secret") {
		t.Fatalf("sealed as %q (%v)", sealed, err)
	}
	again, err := auth.OpenSealer(filepath.Join(dir, auth.SealKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Open("name", sealed); err != nil || got != "the secret" {
		t.Fatalf("opened as %q (%v)", got, err)
	}
	if _, err := again.Open("other", sealed); err == nil {
		t.Fatal("opened under another name")
	}
	foreign, err := auth.NewSealer(strings.Repeat("01", 32))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.Open("name", sealed); err == nil {
		t.Fatal("opened with another key")
	}
	info, err := os.Stat(filepath.Join(dir, auth.SealKeyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key file is %v (%v)", info, err)
	}
	if err := os.WriteFile(filepath.Join(dir, auth.SealKeyFile), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.OpenSealer(filepath.Join(dir, auth.SealKeyFile)); err == nil {
		t.Fatal("a damaged key file was taken")
	}
}

func TestAKeyFileThatOthersMayReadIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), auth.SealKeyFile)
	if err := os.WriteFile(path, []byte(strings.Repeat("01", 32)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.OpenSealer(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Fatalf("taken, or refused without advice: %v", err)
	}
}

// Two processes share a key file: after a rotation by one, the other immediately decrypts and
// encrypts with the new key.
func TestARotatedKeyFileIsFollowed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), auth.SealKeyFile)
	one, err := auth.OpenSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := auth.OpenSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	early, err := other.Seal("n", "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(one.AddKey(nil), one.DropKeys(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Open("n", early); err == nil {
		t.Error("a dropped key still opens")
	}
	late, err := one.Seal("n", "y")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Open("n", late); err != nil || got != "y" {
		t.Errorf("the new key is not followed: %q, %v", got, err)
	}
}

func TestProcessesThatStartAtOnceAgreeOnOneKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sealed := make([]string, 16)
	var wg sync.WaitGroup
	for i := range sealed {
		wg.Go(func() {
			s, err := auth.OpenSealer(filepath.Join(dir, auth.SealKeyFile))
			if err != nil {
				t.Error(err)
				return
			}
			sealed[i], _ = s.Seal("n", "x")
		})
	}
	wg.Wait()
	last, err := auth.OpenSealer(filepath.Join(dir, auth.SealKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sealed {
		if got, err := last.Open("n", s); err != nil || got != "x" {
			t.Fatalf("a process sealed with a key of its own: %v", err)
		}
	}
}
