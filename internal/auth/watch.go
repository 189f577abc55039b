package auth

import (
	"net/http"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// watchEvery is how often the key of a request that lasts is looked at again.
const watchEvery = 2 * time.Second

// Watch calls end, with why, when the key or session that r was let in by no longer
// counts: a long poll or a stream must not outlive it. stop ends the watching.
func (a *Authenticator) Watch(r *http.Request, caller Principal, end func(error)) (stop func()) {
	if caller.Session == "" && !isKeyID(caller.ID) {
		return func() {} // a configured key lasts as long as the process
	}
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	look := func() {
		_, err := a.Authenticate(r)
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
