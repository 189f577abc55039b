package dispatch

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// Names of the settings that the runtime keeps in the store.
const (
	settingMembridgeURL = "membridge_server_url"
	settingMembridgeKey = "membridge_admin_key" // sealed
	settingLastTest     = "membridge_last_test"
)

// defaultMembridge is the control plane's address if none is configured.
const defaultMembridge = "http://127.0.0.1:8000"

type membridgeSettings struct {
	url      string
	adminKey string
	savedKey bool // the key is the saved one
	lastTest *int64
}

type settingsCache struct {
	mu  sync.Mutex
	now membridgeSettings

	unreadable string // the sealed key that loadSettings has logged; only it uses this
}

// Settings is what GET /config shows. It never contains the key.
type Settings struct {
	MembridgeURL   string `json:"membridge_server_url"`
	AdminKeyMasked string `json:"admin_key_masked" doc:"First and last four characters"`
	Connected      bool   `json:"connected"`
	LastTest       *int64 `json:"last_test" doc:"Unix milliseconds"`
}

// loadSettings reads the saved settings, which take precedence over the
// environment's, and configures the control plane's client. It logs once, and ignores, a
// key that cannot be decrypted, for example after the key file was replaced.
func (s *Service) loadSettings(ctx context.Context) error {
	saved, err := s.store.Settings(ctx)
	if err != nil {
		return err
	}
	next := s.env
	if u := saved[settingMembridgeURL]; u != "" {
		next.url = u
	}
	if sealed := saved[settingMembridgeKey]; sealed != "" {
		key, err := s.seal.Open(settingMembridgeKey, sealed)
		switch {
		case err == nil:
			next.adminKey, next.savedKey = key, true
			s.settings.unreadable = ""
		case s.settings.unreadable != sealed:
			s.log.ErrorContext(ctx, "ignoring the saved membridge key: it cannot be decrypted; save it again", "error", err)
			s.settings.unreadable = sealed
		}
	}
	if ms, err := strconv.ParseInt(saved[settingLastTest], 10, 64); err == nil {
		next.lastTest = &ms
	}
	s.useSettings(next)
	return nil
}

func (s *Service) useSettings(next membridgeSettings) {
	s.settings.mu.Lock()
	defer s.settings.mu.Unlock()
	changed := next.url != s.settings.now.url || next.adminKey != s.settings.now.adminKey
	s.settings.now = next
	if changed && s.membridge != nil {
		s.membridge.Configure(next.url, next.adminKey)
	}
}

func (s *Service) currentSettings() membridgeSettings {
	s.settings.mu.Lock()
	defer s.settings.mu.Unlock()
	return s.settings.now
}

// reloadSettings follows changes that other replicas save: on their hints, and regularly,
// because hints can be lost.
func (s *Service) reloadSettings(signal <-chan struct{}, every time.Duration) {
	timer := time.NewTimer(jittered(every))
	defer timer.Stop()
	for failing := false; ; timer.Reset(jittered(every)) {
		select {
		case <-s.closing:
			return
		case <-signal:
		case <-timer.C:
		}
		s.configuring.Lock() // or this could undo what is being saved
		err := s.loadSettings(context.Background())
		s.configuring.Unlock()
		if err != nil && !failing {
			s.log.Warn("reading changed settings failed; retrying", "error", err)
		}
		failing = err != nil
	}
}

// Settings returns the configuration without its secrets.
func (s *Service) Settings() Settings {
	now := s.currentSettings()
	return Settings{
		MembridgeURL: now.url, AdminKeyMasked: Mask(now.adminKey),
		Connected: s.MembridgeState().Connected, LastTest: now.lastTest,
	}
}

// Mask returns enough of a secret to distinguish it from another one.
func Mask(secret string) string {
	switch {
	case secret == "":
		return ""
	case len(secret) <= 8:
		return "****"
	}
	return secret[:4] + "****" + secret[len(secret)-4:]
}

// Configure saves the control plane's address and admin key.
func (s *Service) Configure(ctx context.Context, address, adminKey, actor string) (Settings, error) {
	address, err := cleanAddress(address)
	if err != nil {
		return Settings{}, err
	}
	if strings.ContainsFunc(adminKey, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Settings{}, bloom.Invalid("The admin key is invalid", bloom.FieldError{Field: "admin_key", Message: "must be printable ASCII"})
	}
	s.configuring.Lock()
	defer s.configuring.Unlock()
	// Read first: a key that was sealed before another server rotated must not be saved after it.
	saved, err := s.store.Settings(ctx)
	if err != nil {
		return Settings{}, err
	}
	sealed, err := s.seal.Seal(settingMembridgeKey, adminKey)
	if err != nil {
		return Settings{}, bloom.Internal(err)
	}
	was := map[string]string{settingMembridgeKey: saved[settingMembridgeKey]}
	err = s.store.ReplaceSettings(ctx, was, map[string]string{settingMembridgeURL: address, settingMembridgeKey: sealed}, bloom.Audit{
		Action: audit.ActionConfigUpdated, EntityType: audit.EntityConfig, EntityID: "membridge", Actor: actor,
		Detail: "Membridge is at " + address,
		Data:   storable.MustJSON(map[string]string{"membridge_server_url": address}),
	})
	if err != nil {
		return Settings{}, err
	}
	s.useSettings(membridgeSettings{url: address, adminKey: adminKey, savedKey: true, lastTest: s.currentSettings().lastTest})
	return s.Settings(), nil
}

func cleanAddress(address string) (string, error) {
	wrong := func(message string) error {
		return bloom.Invalid("The server address is invalid", bloom.FieldError{Field: "membridge_server_url", Message: message})
	}
	u, err := url.Parse(strings.TrimSpace(storable.Text(address)))
	switch {
	case err != nil:
		return "", wrong("must be an address like http://127.0.0.1:8000")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", wrong("must begin with http:// or https://")
	case u.Host == "":
		return "", wrong("must name a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", wrong("must not carry a user, a query or a fragment")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// Writable returns an error while the database refuses writes.
func (s *Service) Writable() error {
	if why := s.machine().WritesFail; why != "" {
		return &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable, Message: why}
	}
	return nil
}
