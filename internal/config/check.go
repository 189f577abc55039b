package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxKeyFile bounds a key file, in bytes; a larger file must be the wrong one.
const maxKeyFile = 4096

// pair refuses one of two settings that require each other.
func pair(one, oneValue, other, otherValue string) error {
	switch {
	case oneValue != "" && otherValue == "":
		return fmt.Errorf("%s requires %s", one, other)
	case oneValue == "" && otherValue != "":
		return fmt.Errorf("%s requires %s", other, one)
	}
	return nil
}

// withPort replaces the port of addr if the port comes from a source with higher priority; an address
// from the same source is complete. Its errors name the flag with the wrong value.
func withPort(addr string, port int, addrFrom, portFrom Source, addrFlag, portFlag string) (string, error) {
	host, own, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%s: %q is not HOST:PORT", addrFlag, addr)
	}
	flag := addrFlag
	if portFrom > addrFrom {
		own, flag = strconv.Itoa(port), portFlag
		if port == 0 {
			return "", fmt.Errorf("%s: port 0 is not allowed; choose one between 1 and 65535", flag)
		}
	}
	if n, err := strconv.Atoi(own); err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("%s: port %q is not a number between 1 and 65535", flag, own)
	}
	return net.JoinHostPort(host, own), nil
}

// CheckURL validates an http or https URL without credentials.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return fmt.Errorf("%q is not a URL like http://127.0.0.1:5000", raw)
	case u.User != nil:
		return errors.New("a URL must not contain a user or password")
	}
	return nil
}

// ReadKey reads a secret from its file, if one is set. Setting both the secret and the file is an
// error. flag and name + "_FILE" are the file's settings; name is empty where it has no variable.
func ReadKey(flag, name string, value *Secret, path string) error {
	if path == "" {
		return nil
	}
	from := flag
	if name != "" {
		from = fmt.Sprintf("%s (or %s_FILE)", flag, name)
	}
	if *value != "" {
		return fmt.Errorf("%s and %s are both set; set only one", name, from)
	}
	raw, err := readSmall(path, maxKeyFile)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" {
		return fmt.Errorf("%s: %s is empty", from, path)
	}
	*value = Secret(key)
	return nil
}

func positive(durations map[string]time.Duration) error {
	for _, name := range sortedKeys(durations) {
		if durations[name] <= 0 {
			return fmt.Errorf("%s: %s is not greater than 0", name, durations[name])
		}
	}
	return nil
}

const (
	writerGrace = 5 * time.Second  // how long a pipe may have no writer
	writerTime  = 30 * time.Second // how long a pipe's writer, or a terminal, may take
)

// readSmall reads a file of at most limit bytes. It may be a pipe, such as the shell's
// <(command). It is an error if nobody writes to the pipe or closes it: reading it would never end.
func readSmall(path string, limit int64) ([]byte, error) {
	return readWithin(path, limit, writerGrace, writerTime)
}

func readWithin(path string, limit int64, grace, most time.Duration) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe waits for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	_ = f.SetReadDeadline(time.Now().Add(most)) // a regular file has none, and needs none
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for since := time.Now(); ; <-tick.C {
		raw, err := io.ReadAll(io.LimitReader(f, limit+1))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, fmt.Errorf("%s did not end within %s: write to it and close it", path, most)
		case err != nil:
			return nil, err
		case int64(len(raw)) > limit:
			return nil, fmt.Errorf("%s is larger than %d KiB", path, limit>>10)
		case len(raw) > 0 || info.Mode()&os.ModeNamedPipe == 0:
			return raw, nil
		case time.Since(since) > grace:
			return nil, fmt.Errorf("%s is a pipe, and nothing was written to it", path)
		}
	}
}
