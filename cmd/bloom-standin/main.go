// Command bloom-standin serves canned answers in place of the model's API, for
// demonstrations without an account. Every answer says that it is canned.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom/internal/standin"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "loopback address to listen on; port 0 picks a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "bloom-standin:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return errors.Join(errors.New("it listens on a loopback address only"), listener.Close())
	}
	// The first line is for programs: the address to put in ANTHROPIC_BASE_URL.
	fmt.Printf("http://%s\n", listener.Addr())
	fmt.Fprintln(os.Stderr, "bloom-standin: every answer is canned, no model is asked")
	server := &http.Server{Handler: standin.New(standin.Scenarios), ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
