package auth

import (
	"net/http"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// watchEvery is how often the key of a long request is checked again.
const watchEvery = 2 * time.Second

// Watch calls end, with the reason, when the key or session that admitted r is no longer valid: a
// long poll or a stream must not outlive it. stop ends the checks.
func (a *Authenticator) Watch(r *http.Request, caller Principal, end func(error)) (stop func()) {
	if caller.Session == "" && !isKeyID(caller.ID) {
		return func() {} // a configured key is valid as long as the process runs
	}
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	look := func() {
		var err error
		if caller.Session != "" {
			_, err = a.bySession(r, true)
		} else {
			_, err = a.Authenticate(r)
		}
		if bloom.KindOf(err) == bloom.KindUnauthorized {
			end(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			timer.Reset(watchEvery)
		}
	}
	mu.Lock()
	timer = time.AfterFunc(watchEvery, look)
	mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}
