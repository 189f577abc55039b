package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/durable"
)

// SealKeyFile is the name of the encryption key file in the data directory.
const SealKeyFile = "secret.key"

const (
	sealPrefix  = "v1:"
	sealKeySize = 32
	maxSealKeys = 8
)

// ErrFixedKeys is returned when the keys cannot change because they come from a setting.
var ErrFixedKeys = bloom.Conflict("The encryption key is set in BLOOM_SECRET_KEY: put a new one before it (NEW,OLD), restart, and rotate; then remove the old one")

// Sealer encrypts secrets in the database (AES-256-GCM), so that a dump reveals none. Its first key
// encrypts; all of them decrypt. It is safe for concurrent use.
type Sealer struct {
	path string // of the key file; "" for keys from a setting

	mu    sync.Mutex
	keys  []sealKey
	mtime time.Time // of the key file when it was last read
}

type sealKey struct {
	text string // hexadecimal, as in the file
	aead cipher.AEAD
}

// NewSealer returns a Sealer with keys of 64 hexadecimal digits each, separated by commas or white
// space. Replicas that share a database must have the same first key.
func NewSealer(keys string) (*Sealer, error) {
	parsed, err := parseSealKeys(keys)
	if err != nil {
		return nil, err
	}
	return &Sealer{keys: parsed}, nil
}

func parseSealKeys(text string) ([]sealKey, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
	if len(words) == 0 || len(words) > maxSealKeys {
		return nil, fmt.Errorf("expected 1 to %d keys, got %d", maxSealKeys, len(words))
	}
	keys := make([]sealKey, len(words))
	for i, word := range words {
		raw, err := hex.DecodeString(word)
		if err != nil || len(raw) != sealKeySize {
			return nil, fmt.Errorf("a key must have %d hexadecimal digits; generate one with `openssl rand -hex %d`", 2*sealKeySize, sealKeySize)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		keys[i] = sealKey{strings.ToLower(word), aead}
	}
	return keys, nil
}

// OpenSealer returns a Sealer with the keys of a file. A missing file is created, readable only by
// its owner; processes that create it at the same time agree on one key. A file that others can
// read is refused.
func OpenSealer(path string) (*Sealer, error) {
	s := &Sealer{path: path}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := newSealKey()
		if err != nil {
			return nil, err
		}
		// If another process was first, its key is used.
		if err := durable.Create(path, []byte(key+"\n")); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("create the encryption key file: %w", err)
		}
	}
	if err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

func newSealKey() (string, error) {
	var key [sealKeySize]byte
	_, err := rand.Read(key[:])
	return hex.EncodeToString(key[:]), err
}

// read reads the keys from the file. It requires the lock, or exclusive access.
func (s *Sealer) read() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("read the encryption key file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("the key file %s is readable by others (mode %04o): run chmod 600 on it, and bloom secrets rotate if someone may have read it", s.path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("read the encryption key file: %w", err)
	}
	keys, err := parseSealKeys(string(raw))
	if err != nil {
		return fmt.Errorf("%s is damaged: %w; restore it from a backup, or remove it and enter the secrets again", s.path, err)
	}
	s.keys, s.mtime = keys, info.ModTime()
	return nil
}

// current returns the keys and reloads them when the file has changed: a rotation by another
// process, or a file copied to a replica, needs no restart.
func (s *Sealer) current() []sealKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != "" {
		if info, err := os.Stat(s.path); err == nil && !info.ModTime().Equal(s.mtime) {
			_ = s.read() // until it can be read, the current keys stay in use
		}
	}
	return s.keys
}

// AddKey adds a new first key, on disk, too: it encrypts from now on, and the earlier ones only
// decrypt. It removes keys that rotations left that failed, and the oldest beyond maxSealKeys, but
// none that one of the sealed values, by name, needs. With keys from a setting, the first of
// several counts as new; a single one returns ErrFixedKeys.
func (s *Sealer) AddKey(sealed map[string]string) error {
	switch {
	case s.path == "" && len(s.keys) == 1:
		return ErrFixedKeys
	case s.path == "":
		return nil
	}
	text, err := newSealKey()
	if err != nil {
		return err
	}
	return s.change(func(keys []sealKey) ([]sealKey, error) {
		needed := func(k sealKey) bool { return k.opensAny(sealed) }
		// Keys before the newest needed one are of failed rotations and encrypted no
		// secret. The first one may belong to another process's rotation in progress.
		if newest := slices.IndexFunc(keys, needed); newest > 1 {
			keys = slices.Delete(keys, 1, newest)
		}
		last := len(keys) - 1
		for last > 0 && needed(keys[last]) {
			last--
		}
		switch {
		case len(keys) < maxSealKeys:
		case last == 0:
			return nil, fmt.Errorf("all %d keys are in use", maxSealKeys)
		default:
			keys = slices.Delete(keys, last, last+1)
		}
		return slices.Insert(keys, 0, sealKey{text: text}), nil
	})
}

// DropKeys removes every key but the first and those that the sealed values, by name, need, on
// disk, too. It does nothing with keys from a setting.
func (s *Sealer) DropKeys(sealed map[string]string) error {
	if s.path == "" {
		return nil
	}
	return s.change(func(keys []sealKey) ([]sealKey, error) {
		return append(keys[:1], slices.DeleteFunc(keys[1:], func(k sealKey) bool { return !k.opensAny(sealed) })...), nil
	})
}

// change replaces the keys in the file with what edit returns for a copy of them.
func (s *Sealer) change(edit func([]sealKey) ([]sealKey, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		return err
	}
	keys, err := edit(slices.Clone(s.keys))
	if err != nil {
		return err
	}
	var file strings.Builder
	for _, k := range keys {
		file.WriteString(k.text + "\n")
	}
	if err := durable.Replace(s.path, []byte(file.String())); err != nil {
		return fmt.Errorf("write the encryption key file: %w", err)
	}
	return s.read()
}

// Seal encrypts secret for the setting called name. It decrypts only under the same name.
func (s *Sealer) Seal(name, secret string) (string, error) {
	sealed := s.current()[0].aead.Seal(nil, nil, []byte(secret), []byte(name))
	return sealPrefix + base64.RawStdEncoding.EncodeToString(sealed), nil
}

// Open decrypts what Seal returned for the same name.
func (s *Sealer) Open(name, sealed string) (string, error) {
	raw, err := parseSealed(sealed)
	if err != nil {
		return "", err
	}
	for _, k := range s.current() {
		if secret, err := k.aead.Open(nil, nil, raw, []byte(name)); err == nil {
			return string(secret), nil
		}
	}
	return "", errors.New("the secret was encrypted under another key")
}

func parseSealed(sealed string) ([]byte, error) {
	rest, ok := strings.CutPrefix(sealed, sealPrefix)
	if !ok {
		return nil, errors.New("this version does not know how the secret is encrypted")
	}
	raw, err := base64.RawStdEncoding.DecodeString(rest)
	if err != nil {
		return nil, errors.New("the encrypted secret is damaged")
	}
	return raw, nil
}

// opensAny reports whether the key decrypts one of the sealed values.
func (k sealKey) opensAny(sealed map[string]string) bool {
	for name, value := range sealed {
		if raw, err := parseSealed(value); err == nil {
			if _, err := k.aead.Open(nil, nil, raw, []byte(name)); err == nil {
				return true
			}
		}
	}
	return false
}
