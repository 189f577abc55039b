package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Connection is the result of a test of the connection to the control plane.
type Connection struct {
	Connected bool            `json:"connected"`
	Health    json.RawMessage `json:"health,omitempty" doc:"Membridge's own answer"`
	Error     string          `json:"error,omitempty"`
}

// TestConnection requests the control plane's health, which needs no key, and
// something that needs the admin key. Only an audited test is recorded.
func (s *Service) TestConnection(ctx context.Context, actor string, audited bool) (Connection, error) {
	found := s.tryMembridge(ctx)
	if !audited {
		return found, nil
	}
	detail := "Connected"
	if !found.Connected {
		detail = found.Error
	}
	s.configuring.Lock() // or the settings could show an earlier test
	defer s.configuring.Unlock()
	ms := timing.Millis(s.clock.Now())
	err := s.store.PutSettings(ctx, map[string]string{settingLastTest: strconv.FormatInt(ms, 10)}, bloom.Audit{
		Action: audit.ActionConnectionTest, EntityType: audit.EntityConfig, EntityID: "membridge", Actor: actor,
		Detail: detail, Data: storable.MustJSON(map[string]bool{"connected": found.Connected}),
	})
	if err != nil {
		return Connection{}, err
	}
	s.settings.mu.Lock()
	s.settings.now.lastTest = &ms
	s.settings.mu.Unlock()
	return found, nil
}

// NoMembridge is the message of a server without a control plane.
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

// keyName says which key is used, as part of a sentence.
func (m membridgeSettings) keyName() string {
	switch {
	case m.adminKey == "":
		return "a server without a key; save its admin key in the settings, or set MEMBRIDGE_ADMIN_KEY"
	case m.savedKey:
		return "the admin key that was saved in the settings (it wins over MEMBRIDGE_ADMIN_KEY)"
	}
	return "the admin key in MEMBRIDGE_ADMIN_KEY"
}

// MembridgeState returns the state of the connection to the control plane.
func (s *Service) MembridgeState() MembridgeState {
	if s.membridge == nil {
		return MembridgeState{Disabled: true}
	}
	return s.membridge.State()
}

// MembridgeForWorkers returns the control plane's address for workers. It is empty if
// there is none, and if it is only the default address and does not answer.
func (s *Service) MembridgeForWorkers() string {
	now := s.currentSettings().url
	if s.membridge == nil || now == defaultMembridge && !s.MembridgeState().Connected {
		return ""
	}
	return now
}
