package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom"
)

// Names of the settings that the runtime keeps in the store.
const (
	settingMembridgeURL = "membridge_server_url"
	settingMembridgeKey = "membridge_admin_key" // sealed
	settingLastTest     = "membridge_last_test"
)

// defaultMembridge is where the described system looks when nothing is said.
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
}

// Settings is what GET /config shows. The key itself never leaves the server.
type Settings struct {
	MembridgeURL   string `json:"membridge_server_url"`
	AdminKeyMasked string `json:"admin_key_masked" doc:"First and last four characters"`
	Connected      bool   `json:"connected"`
	LastTest       *int64 `json:"last_test" doc:"Unix milliseconds"`
}

// loadSettings reads the saved settings, which win over the environment's, and
// hands them to the client of the control plane. A key that cannot be opened
// (another key file) is said in the log and passed over.
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
		if err != nil {
			s.log.ErrorContext(ctx, "the saved membridge key cannot be opened; save it again", "error", err)
		} else {
			next.adminKey, next.savedKey = key, true
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

// reloadSettings follows changes that another replica saved.
func (s *Service) reloadSettings(signal <-chan struct{}) {
	for {
		select {
		case <-s.closing:
			return
		case <-signal:
		}
		if err := s.loadSettings(context.Background()); err != nil {
			s.log.Warn("changed settings could not be read", "error", err)
		}
	}
}

// Settings is the configuration as it may be shown.
func (s *Service) Settings() Settings {
	now := s.currentSettings()
	return Settings{
		MembridgeURL: now.url, AdminKeyMasked: Mask(now.adminKey),
		Connected: s.MembridgeState().Connected, LastTest: now.lastTest,
	}
}

// Mask shows of a secret as much as distinguishes it from another one.
func Mask(secret string) string {
	switch {
	case secret == "":
		return ""
	case len(secret) <= 8:
		return "****"
	}
	return secret[:4] + "****" + secret[len(secret)-4:]
}

// Configure saves where the control plane is and the key to it.
func (s *Service) Configure(ctx context.Context, address, adminKey, actor string) (Settings, error) {
	address, err := cleanAddress(address)
	if err != nil {
		return Settings{}, err
	}
	if strings.ContainsFunc(adminKey, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Settings{}, bloom.Invalid("The admin key is not one", bloom.FieldError{Field: "admin_key", Message: "must be printable ASCII"})
	}
	s.configuring.Lock()
	defer s.configuring.Unlock()
	sealed, err := s.seal.Seal(settingMembridgeKey, adminKey)
	if err != nil {
		return Settings{}, bloom.Internal(err)
	}
	err = s.store.PutSettings(ctx, map[string]string{settingMembridgeURL: address, settingMembridgeKey: sealed}, bloom.Audit{
		Action: bloom.ActionConfigUpdated, EntityType: bloom.EntityConfig, EntityID: "membridge", Actor: actor,
		Detail: "Membridge is at " + address,
		Data:   bloom.MustJSON(map[string]string{"membridge_server_url": address}),
	})
	if err != nil {
		return Settings{}, err
	}
	s.useSettings(membridgeSettings{url: address, adminKey: adminKey, savedKey: true, lastTest: s.currentSettings().lastTest})
	return s.Settings(), nil
}

func cleanAddress(address string) (string, error) {
	wrong := func(message string) error {
		return bloom.Invalid("The address is not one of a server", bloom.FieldError{Field: "membridge_server_url", Message: message})
	}
	u, err := url.Parse(strings.TrimSpace(bloom.CleanText(address)))
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

// Connection is what a test of the connection to the control plane found.
type Connection struct {
	Connected bool            `json:"connected"`
	Health    json.RawMessage `json:"health,omitempty" doc:"Membridge's own answer"`
	Error     string          `json:"error,omitempty"`
}

// TestConnection asks the control plane, under the stored settings, for its health,
// which is open to everybody, and for something that needs the admin key. Only an
// audited test is recorded.
func (s *Service) TestConnection(ctx context.Context, actor string, audited bool) (Connection, error) {
	found := s.tryMembridge(ctx)
	if !audited {
		return found, nil
	}
	detail := "Connected"
	if !found.Connected {
		detail = found.Error
	}
	ms := bloom.Millis(s.clock.Now())
	err := s.store.PutSettings(ctx, map[string]string{settingLastTest: strconv.FormatInt(ms, 10)}, bloom.Audit{
		Action: bloom.ActionConnectionTest, EntityType: bloom.EntityConfig, EntityID: "membridge", Actor: actor,
		Detail: detail, Data: bloom.MustJSON(map[string]bool{"connected": found.Connected}),
	})
	if err != nil {
		return Connection{}, err
	}
	s.settings.mu.Lock()
	s.settings.now.lastTest = &ms
	s.settings.mu.Unlock()
	return found, nil
}

// NoMembridge is what a server says that was started without a control plane.
const NoMembridge = "This server was started without membridge (--no-membridge); restart it with membridge to use it"

func (s *Service) tryMembridge(ctx context.Context) Connection {
	if s.membridge == nil {
		return Connection{Error: NoMembridge}
	}
	if s.currentSettings().url == "" {
		return Connection{Error: "No membridge address is configured"}
	}
	health, err := s.membridge.Health(ctx)
	if err == nil {
		if err = s.membridge.Check(ctx); err == nil {
			return Connection{Connected: true, Health: health}
		}
	}
	if e := (*bloom.Error)(nil); errors.As(err, &e) && e.Code == bloom.CodeMembridgeForbidden {
		return Connection{Health: health, Error: "Membridge answers, but not to " + s.currentSettings().keyName() + ": GET /projects was refused"}
	}
	s.log.WarnContext(ctx, "membridge does not answer", "error", err)
	var e *bloom.Error
	if errors.As(err, &e) && e.Kind != bloom.KindInternal {
		return Connection{Error: e.Message}
	}
	return Connection{Error: "Membridge does not answer at the configured address"}
}

// keyName is which key is shown to the control plane.
func (m membridgeSettings) keyName() string {
	switch {
	case m.adminKey == "":
		return "a server without a key; save its admin key in the settings, or set MEMBRIDGE_ADMIN_KEY"
	case m.savedKey:
		return "the admin key that was saved in the settings (it wins over MEMBRIDGE_ADMIN_KEY)"
	}
	return "the admin key in MEMBRIDGE_ADMIN_KEY"
}

// MembridgeState is how the connection to the control plane has fared.
func (s *Service) MembridgeState() MembridgeState {
	if s.membridge == nil {
		return MembridgeState{}
	}
	return s.membridge.State()
}

// MembridgeForWorkers is where a worker finds the control plane, empty when there
// is none that anybody chose or that answers: nobody should look for a membridge
// that is only the default's.
func (s *Service) MembridgeForWorkers() string {
	now := s.currentSettings().url
	if s.membridge == nil || now == defaultMembridge && !s.MembridgeState().Connected {
		return ""
	}
	return now
}

// Ready reports whether the store answers.
func (s *Service) Ready(ctx context.Context) error { return s.store.Ping(ctx) }

// StoreName is which store is in use.
func (s *Service) StoreName() string { return s.store.Name() }

// Promoted records in the audit that somebody chose which node leads a project.
func (s *Service) Promoted(ctx context.Context, project, node, actor string) error {
	project, node = bloom.CleanText(project), bloom.CleanText(node)
	return s.store.AppendAudit(ctx, bloom.Audit{
		Action: bloom.ActionLeadershipPromote, EntityType: "project", EntityID: project, Actor: actor,
		Detail: node + " leads " + project,
		Data:   bloom.MustJSON(map[string]string{"primary_node_id": node}),
	})
}

// SyncRequested records in the audit that somebody had an agent push or pull a project's
// memory. jobID is empty when the control plane did not say whether it took the order.
func (s *Service) SyncRequested(ctx context.Context, kind, project, agent, jobID, actor string) error {
	project, agent = bloom.CleanText(project), bloom.CleanText(agent)
	detail := agent + " is to " + kind + " the memory of " + project
	if jobID == "" {
		detail = "Outcome unknown: membridge did not answer whether " + detail
	}
	return s.store.AppendAudit(ctx, bloom.Audit{
		Action: bloom.ActionSyncRequested, EntityType: "project", EntityID: project, Actor: actor, Detail: detail,
		Data: bloom.MustJSON(map[string]string{"kind": kind, "agent": agent, "job_id": bloom.CleanText(jobID)}),
	})
}

// Refused records in the audit that a change was asked for without the right to it.
func (s *Service) Refused(ctx context.Context, route, actor, why string) error {
	return s.store.AppendAudit(ctx, bloom.Audit{
		Action: bloom.ActionRefused, EntityType: "route", EntityID: route, Actor: actor, Detail: why, Data: nil,
	})
}

// PromotionUnknown records in the audit that somebody chose a node, and that the control
// plane gave no answer by which to tell whether it leads.
func (s *Service) PromotionUnknown(ctx context.Context, project, node, actor string) error {
	project, node = bloom.CleanText(project), bloom.CleanText(node)
	return s.store.AppendAudit(ctx, bloom.Audit{
		Action: bloom.ActionLeadershipPromote, EntityType: "project", EntityID: project, Actor: actor,
		Detail: "Outcome unknown: membridge did not answer whether " + node + " leads " + project,
		Data:   bloom.MustJSON(map[string]string{"primary_node_id": node, "outcome": "unknown"}),
	})
}
