package config

import "fmt"

// Limits bound what callers may ask for. 0 has none.
type Limits struct {
	RateAddress  int `name:"rate-limit-address" var:"BLOOM_RATE_LIMIT_ADDRESS" key:"rate_limit_address" default:"100" placeholder:"N" help:"Requests a minute from an address without a valid key; 0: any number."`
	RateSignIn   int `name:"rate-limit-sign-in" var:"BLOOM_RATE_LIMIT_SIGN_IN" key:"rate_limit_sign_in" default:"20" placeholder:"N" help:"Attempts to sign in a minute from an address, and as many connection tests; 0: any number."`
	RateKey      int `name:"rate-limit-key" var:"BLOOM_RATE_LIMIT_KEY" key:"rate_limit_key" default:"6000" placeholder:"N" help:"Requests a minute with a key, besides those of workers; 0: any number, as bloom bench needs it."`
	RateWorker   int `name:"rate-limit-worker" var:"BLOOM_RATE_LIMIT_WORKER" key:"rate_limit_worker" default:"600000" placeholder:"N" help:"Requests a minute that all workers with one key make together; 0: any number."`
	MaxQueued    int `name:"max-queued" var:"BLOOM_MAX_QUEUED" key:"max_queued" default:"1000000" placeholder:"N" help:"Tasks that may wait in the queue; more get 429. 0: any number."`
	MaxQueuedKey int `name:"max-queued-per-key" var:"BLOOM_MAX_QUEUED_PER_KEY" key:"max_queued_per_key" default:"100000" placeholder:"N" help:"Tasks created with one key that may wait in the queue; more get 429. 0: any number."`
}

// maxLimit is more than any server does.
const maxLimit = 1_000_000_000

func (l Limits) finish() error {
	for _, one := range []struct {
		flag string
		n    int
	}{
		{"--rate-limit-address", l.RateAddress}, {"--rate-limit-sign-in", l.RateSignIn}, {"--rate-limit-key", l.RateKey},
		{"--rate-limit-worker", l.RateWorker},
		{"--max-queued", l.MaxQueued}, {"--max-queued-per-key", l.MaxQueuedKey},
	} {
		if one.n < 0 || one.n > maxLimit {
			return fmt.Errorf("%s: %d is not between 0 (no limit) and %d", one.flag, one.n, maxLimit)
		}
	}
	return nil
}
