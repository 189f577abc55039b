package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/bloom-runtime/bloom/internal/front"
)

// openFront starts to accept connections.
func (s *Server) openFront(ctx context.Context, withWorker bool) (err error) {
	c := front.Config{
		Listener: s.listener, HTTP: httpServer(s.log), Logger: s.log,
		TLS: front.Files{Certificate: s.cfg.TLSCert, Key: s.cfg.TLSKey, ClientCA: s.cfg.TLSClientCA},
		ACME: front.ACME{Domains: s.cfg.ACMEDomain, Email: s.cfg.ACMEEmail, Directory: s.cfg.ACMEDirectory, Roots: s.cfg.ACMERoots,
			Folder: filepath.Join(s.cfg.DataDir, "acme"), ClientCA: s.cfg.TLSClientCA},
		Redirect: nil, Private: nil, Starting: 0, MaxConnections: s.cfg.MaxConnections,
	}
	if s.cfg.HTTPRedirect != "" {
		if c.Redirect, err = listen(ctx, front.SocketRedirect, s.cfg.HTTPRedirect, "--http-redirect"); err != nil {
			return err
		}
	}
	if s.cfg.Secure() && withWorker {
		if s.private, err = listen(ctx, "", "127.0.0.1:0", "--no-worker"); err != nil {
			return err
		}
		c.Private = s.private
	}
	s.front, err = front.Open(ctx, c)
	return err
}

// httpServer returns a server with the limits common to all roles.
func httpServer(log *slog.Logger) *http.Server {
	return &http.Server{
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// listen returns the inherited socket of this name, or listens on an address. Its errors say which
// process uses the address and how to choose another.
func listen(ctx context.Context, socket, addr, other string) (net.Listener, error) {
	if l, err := front.Inherited(socket); l != nil || err != nil {
		return l, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		by := ""
		if holder := PortHolder(addr); holder != "" {
			by = " by " + holder
		}
		return nil, fmt.Errorf("%s is already in use%s; stop that program, or choose another address (%s)", addr, by, other)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s: not allowed to use this port; ports below 1024 require a privilege, choose a higher one", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is not an address of this machine; use 127.0.0.1 or 0.0.0.0", addr)
	}
	return nil, fmt.Errorf("listen on %s: %w", addr, err)
}

// PortHolder returns the process that listens on a port, if the system reports it (on Linux, and
// only processes of the same user unless root); otherwise "".
func PortHolder(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return ""
	}
	inode := ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode == "" {
			inode = listeningInode(table, n)
		}
	}
	if inode == "" {
		return ""
	}
	return socketOwner("socket:[" + inode + "]")
}

// listeningInode finds the socket that listens on the port in one of the
// kernel's tables (proc_net_tcp(5)): local address, state 0A, inode.
func listeningInode(table string, port int) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		field := strings.Fields(lines.Text())
		if len(field) > 9 && field[3] == "0A" && strings.HasSuffix(field[1], suffix) {
			return field[9]
		}
	}
	return ""
}

func socketOwner(socket string) string {
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || to != socket {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			continue
		}
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(dir))
	}
	return ""
}
