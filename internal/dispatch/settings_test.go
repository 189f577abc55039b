package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// hintless is a store all of whose notifications are lost.
type hintless struct{ contract.Store }

func (hintless) Subscribe(func([]bloom.Change)) func() { return func() {} }

func TestAReplicaFindsChangedSettingsWithoutAHint(t *testing.T) {
	t.Parallel()
	seal, err := auth.NewSealer(strings.Repeat("01", 32))
	if err != nil {
		t.Fatal(err)
	}
	var cfg dispatch.Config
	one, _ := open(t, func(c *dispatch.Config) {
		c.Seal = seal
		cfg = *c
	})
	cfg.Store, cfg.SettingsPoll = hintless{cfg.Store}, 10*time.Millisecond
	other, err := dispatch.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	for _, address := range []string{"http://bridge:8000", "http://other-bridge:8000"} {
		saved, err := one.Configure(t.Context(), address, "key of "+address, "test")
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); other.Settings() != saved; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the other replica has %+v, not %+v", other.Settings(), saved)
			}
		}
	}
}
