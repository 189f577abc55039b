package process_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// much fits into a pipe, so that printing it need not wait for a reader.
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
	case "freezer":
		fmt.Println(os.Getpid())
		_ = syscall.Kill(os.Getppid(), syscall.SIGSTOP)
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	case "chain":
		chain()
	case "runaway":
		return runaway()
	case "extra":
		_, _ = io.Copy(os.Stdout, os.NewFile(3, "extra"))
	case "patricide":
		return patricide()
	case "silent":
		time.Sleep(time.Hour)
	case "keeper":
		return keeper()
	case "spy":
		return spy()
	}
	return 0
}

// family starts one child in its group and one in its own session, both of which ignore TERM,
// prints all pids, and stays or exits.
func family(stay bool) int {
	for _, session := range []bool{false, true} {
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"x", "__child", "stubborn"}, &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: session},
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		_ = pid // it prints its own pid once it ignores TERM
	}
	fmt.Println(os.Getpid())
	if stay {
		time.Sleep(time.Hour)
	}
	return 0
}

// patricide starts one child in its group and one in its own session, prints all pids, and kills
// its supervisor.
func patricide() int {
	for _, session := range []bool{false, true} {
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"x", "__child", "silent"}, &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: session},
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(pid)
	}
	fmt.Println(os.Getpid())
	_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
	time.Sleep(time.Hour)
	return 0
}

// caller runs the role named by its argument, a family by default, waits for its end, prints that,
// and waits to be killed or for its input to end.
func caller(args []string) int {
	role := "family"
	if len(args) > 0 {
		role = args[0]
	}
	p, err := process.Start(process.Command{Path: "/proc/self/exe", Args: []string{"__child", role}, Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	exit, _ := p.Wait()
	fmt.Println(exit.LeftBehind)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// keeper has a secret in its environment, conceals it on request, and runs a spy.
func keeper() int {
	if os.Getenv("CONCEAL") != "" {
		if err := process.Conceal(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if os.Getenv("SECRET") == "" {
		fmt.Fprintln(os.Stderr, "the keeper lost its own secret")
		return 1
	}
	return caller([]string{"spy"})
}

// spy prints what it can open of its supervisor and of the process above.
func spy() int {
	pid := os.Getppid()
	for range 2 {
		for _, name := range []string{"environ", "mem"} {
			content, err := readProc(pid, name)
			switch {
			case errors.Is(err, fs.ErrPermission):
				fmt.Println(name, "refused")
			default:
				fmt.Printf("%s opened %q\n", name, content)
			}
		}
		var state string
		stat, _ := readProc(pid, "stat")
		if _, err := fmt.Sscan(stat[strings.LastIndexByte(stat, ')')+1:], &state, &pid); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

func readProc(pid int, name string) (string, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return "", err
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if name == "mem" && !errors.Is(err, fs.ErrPermission) {
		err = nil // its first page is never mapped
	}
	return string(content), err
}
