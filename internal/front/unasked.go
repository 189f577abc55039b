package front

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// unasked are the connections on which nothing has been asked yet.
type unasked struct{ open sync.Map } // of net.Conn

// unaskedPatience bounds the wait for a first request: browsers connect in advance.
const unaskedPatience = time.Second

type firstRequest struct {
	once sync.Once
	done func()
}

type firstKey struct{}

// begin is the ConnContext of a server.
func (u *unasked) begin(ctx context.Context, c net.Conn) context.Context {
	u.open.Store(c, nil)
	return context.WithValue(ctx, firstKey{}, &firstRequest{done: func() { u.open.Delete(c) }})
}

// changed is the ConnState of a server.
func (u *unasked) changed(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		u.open.Delete(c)
	}
}

// asked notes that a request has reached a handler.
func asked(r *http.Request) {
	if first, ok := r.Context().Value(firstKey{}).(*firstRequest); ok {
		first.once.Do(first.done)
	}
}

// wait returns when something has been asked on every connection.
func (u *unasked) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, unaskedPatience)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		none := true
		u.open.Range(func(any, any) bool { none = false; return false })
		if none {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}
