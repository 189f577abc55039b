package config

import (
	"fmt"
	"net/netip"
)

// Rates are the rate limits of callers. 0 means unlimited.
type Rates struct {
	RateAddress int `name:"rate-limit-address" var:"BLOOM_RATE_LIMIT_ADDRESS" key:"rate_limit_address" default:"100" placeholder:"N" help:"Requests per minute from an address without a valid key; 0: unlimited."`
	RateKey     int `name:"rate-limit-key" var:"BLOOM_RATE_LIMIT_KEY" key:"rate_limit_key" default:"6000" placeholder:"N" help:"Requests per minute with a key, except worker keys; 0: unlimited, which bloom bench needs."`
	RateWorker  int `name:"rate-limit-worker" var:"BLOOM_RATE_LIMIT_WORKER" key:"rate_limit_worker" default:"600000" placeholder:"N" help:"Requests per minute of all workers with one key together; 0: unlimited."`
}

// Limits are further limits on callers. 0 means unlimited.
type Limits struct {
	Rates
	RateSignIn   int `name:"rate-limit-sign-in" var:"BLOOM_RATE_LIMIT_SIGN_IN" key:"rate_limit_sign_in" default:"20" placeholder:"N" help:"Sign-ins per minute from an address, and as many connection tests; 0: unlimited."`
	MaxQueued    int `name:"max-queued" var:"BLOOM_MAX_QUEUED" key:"max_queued" default:"1000000" placeholder:"N" help:"Tasks that may wait in the queue; more get 429. 0: unlimited."`
	MaxQueuedKey int `name:"max-queued-per-key" var:"BLOOM_MAX_QUEUED_PER_KEY" key:"max_queued_per_key" default:"100000" placeholder:"N" help:"Tasks created with one key that may wait in the queue; more get 429. 0: unlimited."`
}

// Connections limit connections and name trusted proxies.
type Connections struct {
	MaxConnections int      `name:"max-connections" var:"BLOOM_MAX_CONNECTIONS" key:"max_connections" default:"0" placeholder:"N" help:"Maximum number of open connections; beyond it the longest-idle one is closed. 0: three quarters of the process's open file limit, at most 50000."`
	TrustedProxy   []string `name:"trusted-proxy" var:"BLOOM_TRUSTED_PROXIES" key:"trusted_proxies" placeholder:"CIDR" help:"Proxy whose X-Forwarded-For and X-Forwarded-Proto are trusted (repeatable)."`
}

// maxLimit exceeds what any server can reach.
const maxLimit = 1_000_000_000

// bound is a setting that is a limit.
type bound struct {
	flag string
	n    int
}

func within(bounds ...bound) error {
	for _, one := range bounds {
		if one.n < 0 || one.n > maxLimit {
			return fmt.Errorf("%s: %d is not between 0 (no limit) and %d", one.flag, one.n, maxLimit)
		}
	}
	return nil
}

// Finish checks the rates.
func (r Rates) Finish() error {
	return within(bound{"--rate-limit-address", r.RateAddress}, bound{"--rate-limit-key", r.RateKey}, bound{"--rate-limit-worker", r.RateWorker})
}

func (l Limits) finish() error {
	if err := l.Rates.Finish(); err != nil {
		return err
	}
	return within(bound{"--rate-limit-sign-in", l.RateSignIn}, bound{"--max-queued", l.MaxQueued}, bound{"--max-queued-per-key", l.MaxQueuedKey})
}

// leastConnections leaves some connections for workers when strangers take all others.
const leastConnections = 16

// Finish checks the settings.
func (c Connections) Finish() error {
	if c.MaxConnections != 0 && (c.MaxConnections < leastConnections || c.MaxConnections > maxLimit) {
		return fmt.Errorf("--max-connections: %d is not between %d and %d; 0 derives it from the process's open file limit", c.MaxConnections, leastConnections, maxLimit)
	}
	_, err := c.Proxies()
	return err
}

// Proxies returns the networks of --trusted-proxy, which may be given as addresses.
func (c Connections) Proxies() ([]netip.Prefix, error) {
	proxies := make([]netip.Prefix, 0, len(c.TrustedProxy))
	for _, text := range c.TrustedProxy {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("--trusted-proxy: %q is neither an address nor a network like 10.0.0.0/8", text)
			}
			prefix = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		proxies = append(proxies, prefix.Masked())
	}
	return proxies, nil
}
