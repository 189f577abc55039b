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
	"path/filepath"
	"strings"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// SealKeyFile is the name of the key file in the data folder.
const SealKeyFile = "secret.key"

const (
	sealPrefix  = "v1:"
	sealKeySize = 32
)

// Sealer encrypts secrets that rest in the database (AES-256-GCM), so that a
// dump of it shows none. It is safe for concurrent use.
type Sealer struct{ aead cipher.AEAD }

// NewSealer makes a Sealer from a key of 32 bytes. Replicas that share a
// database must share the key.
func NewSealer(key []byte) (*Sealer, error) {
	if len(key) != sealKeySize {
		return nil, fmt.Errorf("a sealing key has %d bytes, not %d", sealKeySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Sealer{aead: aead}, nil
}

// OpenSealer makes a Sealer from the key file in the data folder, which it
// creates, readable by its owner only, when there is none. Two processes that
// create it at once agree on one key.
func OpenSealer(dataDir string) (*Sealer, error) {
	path := filepath.Join(dataDir, SealKeyFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKeyFile(path); err != nil {
			return nil, fmt.Errorf("create the sealing key: %w", err)
		}
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the sealing key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(raw)))
	if err != nil || len(key) != sealKeySize {
		return nil, fmt.Errorf("%s is damaged: %d hex digits are expected; restore it from a backup, or remove it and save the secrets again", path, 2*sealKeySize)
	}
	return NewSealer(key)
}

// createKeyFile writes a new key. When somebody else was first, theirs is the key.
func createKeyFile(path string) error {
	var key [sealKeySize]byte
	if _, err := rand.Read(key[:]); err != nil {
		return err
	}
	err := durable.Create(path, []byte(hex.EncodeToString(key[:])+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Seal encrypts secret for the setting called name; it opens under that name
// only.
func (s *Sealer) Seal(name, secret string) (string, error) {
	sealed := s.aead.Seal(nil, nil, []byte(secret), []byte(name))
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
	secret, err := s.aead.Open(nil, nil, raw, []byte(name))
	if err != nil {
		return "", errors.New("the secret was sealed under another key")
	}
	return string(secret), nil
}
