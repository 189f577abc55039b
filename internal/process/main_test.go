package process_test

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom/internal/process"
)

// TestMain makes the test binary its own supervisor, its own command
// ("__child ROLE") and, for the kill test, its own caller ("__child caller").
func TestMain(m *testing.M) {
	process.MaybeSupervise()
	if len(os.Args) > 2 && os.Args[1] == "__child" {
		os.Exit(child(os.Args[2], os.Args[3:]))
	}
	goleak.VerifyTestMain(m)
}

// much fits in a pipe, so that whoever prints it need not wait for a reader.
const much = 48 << 10

func child(role string, args []string) int {
	switch role {
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
		fmt.Fprintln(os.Stderr, "to stderr")
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "much":
		fmt.Print(strings.Repeat("x", much))
	case "exit":
		return 7
	case "sleep":
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	case "polite":
		terms := make(chan os.Signal, 1)
		signal.Notify(terms, syscall.SIGTERM)
		fmt.Println(os.Getpid())
		<-terms
		return 3
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	case "family":
		return family(true)
	case "leaver":
		return family(false)
	case "caller":
		return caller(args)
	}
	return 0
}

// family starts one child in its group and one that made itself a session of
// its own, both deaf to TERM, prints all pids, and stays or leaves.
func family(stay bool) int {
	for _, session := range []bool{false, true} {
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"x", "__child", "stubborn"}, &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: session},
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		_ = pid // it prints its own once it ignores TERM
	}
	fmt.Println(os.Getpid())
	if stay {
		time.Sleep(time.Hour)
	}
	return 0
}

// caller runs a family and waits to be killed.
func caller([]string) int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	p, err := process.Start(process.Command{Path: self, Args: []string{"__child", "family"}, Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = p.Wait()
	return 0
}
