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
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/durable"
)

// SealKeyFile is the name of the key file in the data folder.
const SealKeyFile = "secret.key"

const (
	sealPrefix  = "v1:"
	sealKeySize = 32
	maxSealKeys = 8
)

// ErrFixedKeys is a Sealer's refusal to change keys that it was given as a setting.
var ErrFixedKeys = bloom.Conflict("The key of secrets is set in BLOOM_SECRET_KEY: put a new one before it there (NEW,OLD), restart, and rotate; then take the old one away")

// Sealer encrypts secrets that rest in the database (AES-256-GCM), so that a
// dump of it shows none. Its first key seals; all of them open. It is safe for
// concurrent use.
type Sealer struct {
	path string // of the key file; "" for keys that were given

	mu    sync.Mutex
	keys  []sealKey
	mtime time.Time // of the key file when it was read
}

type sealKey struct {
	text string // hexadecimal, as in the file
	aead cipher.AEAD
}

// NewSealer makes a Sealer from keys of 64 hexadecimal digits each, separated by
// commas or white space. Replicas that share a database must share the first one.
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
		return nil, fmt.Errorf("1 to %d keys are expected, not %d", maxSealKeys, len(words))
	}
	keys := make([]sealKey, len(words))
	for i, word := range words {
		raw, err := hex.DecodeString(word)
		if err != nil || len(raw) != sealKeySize {
			return nil, fmt.Errorf("a key has %d hexadecimal digits; make one with `openssl rand -hex %d`", 2*sealKeySize, sealKeySize)
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

// OpenSealer makes a Sealer from a key file, which it creates, readable by its
// owner only, when there is none. Two processes that create it at once agree on
// one key. A file that others may read is refused.
func OpenSealer(path string) (*Sealer, error) {
	s := &Sealer{path: path}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := newSealKey()
		if err != nil {
			return nil, err
		}
		// When somebody else was first, theirs is the key.
		if err := durable.Create(path, []byte(key+"\n")); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("create the key file of secrets: %w", err)
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

// read takes the keys from the file. The caller holds the lock, or has the Sealer
// to itself.
func (s *Sealer) read() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("read the key file of secrets: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others may read the key file %s (mode %04o): run chmod 600 on it, and bloom secrets rotate if somebody did", s.path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("read the key file of secrets: %w", err)
	}
	keys, err := parseSealKeys(string(raw))
	if err != nil {
		return fmt.Errorf("%s is damaged: %w; restore it from a backup, or remove it and save the secrets again", s.path, err)
	}
	s.keys, s.mtime = keys, info.ModTime()
	return nil
}

// current is the keys, read again when the file has changed: somebody who rotates
// them in another process, or copies the file to a replica, need not restart this one.
func (s *Sealer) current() []sealKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != "" {
		if info, err := os.Stat(s.path); err == nil && !info.ModTime().Equal(s.mtime) {
			_ = s.read() // until it can be read, the keys that we have go on
		}
	}
	return s.keys
}

// AddKey puts a new key first, on disk too: from then on it seals, and the earlier
// ones only open. Of keys that were given the first is taken for new when there are
// others; a single one gets ErrFixedKeys.
func (s *Sealer) AddKey() error {
	switch {
	case s.path == "" && len(s.keys) == 1:
		return ErrFixedKeys
	case s.path == "":
		return nil
	}
	key, err := newSealKey()
	if err != nil {
		return err
	}
	return s.change(func(keys []string) []string { return append([]string{key}, keys[:min(len(keys), maxSealKeys-1)]...) })
}

// DropKeys removes every key but the first, on disk too. With given keys it does
// nothing.
func (s *Sealer) DropKeys() error {
	if s.path == "" {
		return nil
	}
	return s.change(func(keys []string) []string { return keys[:1] })
}

func (s *Sealer) change(edit func([]string) []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		return err
	}
	texts := make([]string, len(s.keys))
	for i, k := range s.keys {
		texts[i] = k.text
	}
	if err := durable.Replace(s.path, []byte(strings.Join(edit(texts), "\n")+"\n")); err != nil {
		return fmt.Errorf("write the key file of secrets: %w", err)
	}
	return s.read()
}

// Seal encrypts secret for the setting called name; it opens under that name
// only.
func (s *Sealer) Seal(name, secret string) (string, error) {
	sealed := s.current()[0].aead.Seal(nil, nil, []byte(secret), []byte(name))
	return sealPrefix + base64.RawStdEncoding.EncodeToString(sealed), nil
}

// Open decrypts what Seal gave for the same name.
func (s *Sealer) Open(name, sealed string) (string, error) {
	rest, ok := strings.CutPrefix(sealed, sealPrefix)
	if !ok {
		return "", errors.New("the secret is not sealed in a way this version knows")
	}
	raw, err := base64.RawStdEncoding.DecodeString(rest)
	if err != nil {
		return "", errors.New("the sealed secret is damaged")
	}
	for _, k := range s.current() {
		if secret, err := k.aead.Open(nil, nil, raw, []byte(name)); err == nil {
			return string(secret), nil
		}
	}
	return "", errors.New("the secret was sealed under another key")
}
