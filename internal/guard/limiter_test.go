package guard_test

import (
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom/internal/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func TestTheLimitHoldsForEachAddressAndForManyTogether(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Unix(1_700_000_000, 0)}
	l := guard.NewLimiter(c, 20)
	for range 20 {
		if l.Allow("a").Wait != 0 {
			t.Fatal("refused within the limit")
		}
	}
	if got, want := l.Allow("a"), (guard.Allowance{Limit: 20, Remaining: 0, Reset: time.Minute, Wait: 3 * time.Second}); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if l.Allow("b").Wait != 0 {
		t.Fatal("one address used up another's allowance")
	}
	c.now = c.now.Add(3 * time.Second)
	if l.Allow("a").Wait != 0 {
		t.Fatal("the allowance does not grow again")
	}
	allowed := 0
	for i := range 10_000 {
		if l.Allow("spoofed-"+strconv.Itoa(i)).Wait == 0 {
			allowed++
		}
	}
	if allowed > 8192+20 {
		t.Fatalf("%d of 10000 addresses were let in: memory is not bounded", allowed)
	}
	c.now = c.now.Add(guard.LimitWindow)
	for i := range 8000 { // the earlier callers were idle, so new ones take their places
		if l.Allow("new-"+strconv.Itoa(i)).Wait != 0 {
			t.Fatalf("newcomer %d is refused", i)
		}
	}
}

func TestOneIPv6NetworkIsOneCaller(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2:ffff::1": "2001:db8:1:2::", "2001:db8:1:3::1": "2001:db8:1:3::",
		"fe80::1%eth0": "fe80::", "192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "::ffff:192.0.2.7", "@": "@", "": "",
	} {
		if got := guard.Network(address); got != want {
			t.Errorf("%s belongs to %s, want %s", address, got, want)
		}
	}
}
