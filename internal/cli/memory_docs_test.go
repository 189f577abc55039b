package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom/internal/miniotest"
)

// TestTheCommandsOfTheMemoryPageWork runs each command of docs/optional/memory.md as printed, in order, with
// a storage and keys filled in.
func TestTheCommandsOfTheMemoryPageWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/optional/memory.md")
	if err != nil {
		t.Fatal(err)
	}
	storage, home := miniotest.Start(t).Bucket(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".claude-mem"), 0o700); err != nil {
		t.Fatal(err)
	}
	observe(t, filepath.Join(home, ".claude-mem", "claude-mem.db"))
	program := fmt.Sprintf("#!/bin/sh\nexport %s=1\nexec %s \"$@\"\n", asProgram, os.Args[0])
	if err := os.WriteFile(filepath.Join(home, "bloom"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	// Services are installed below a test folder.
	sudo := "#!/bin/sh\nexec \"$@\" --init openrc --root \"$HOME/root\"\n"
	if err := os.WriteFile(filepath.Join(home, "sudo"), []byte(sudo), 0o700); err != nil {
		t.Fatal(err)
	}
	filled := strings.NewReplacer("http://minio.lan:9000", "http://"+storage.Endpoint, "MINIO_ENDPOINT=…", "MINIO_ENDPOINT=http://"+storage.Endpoint,
		"MINIO_ACCESS_KEY=…", "MINIO_ACCESS_KEY="+storage.AccessKey, "MINIO_SECRET_KEY=…", "MINIO_SECRET_KEY="+storage.SecretKey, "[--repair]", "--repair").Replace(string(page))
	settings, ran := "", 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(filled, -1) {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, "export ") {
				settings = line
				continue
			}
			ran++
			runOfPage(t, home, settings+strings.TrimSpace(line))
		}
	}
	if ran < 9 {
		t.Errorf("the page has only %d commands", ran)
	}
	if set, err := os.ReadFile(filepath.Join(home, "root/etc/bloom-memory.ann.env")); err != nil || !strings.Contains(string(set), "\nMINIO_ENDPOINT=http://"+storage.Endpoint) {
		t.Errorf("the service's settings are %s, %v", set, err)
	}
}

// runOfPage runs a line to its end, or a command that serves until its first output.
func runOfPage(t *testing.T, home, line string) {
	t.Helper()
	// exec, so that a signal reaches the program itself.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, "\nbloom", "\nexec bloom", 1))
	cmd.Env = []string{"HOME=" + home, "USER=ann", "PATH=" + home + ":" + os.Getenv("PATH"), "BLOOM_DATA_DIR=" + filepath.Join(home, "data"), "BLOOM_RUNTIME_URL=http://127.0.0.1:1"}
	var said syncBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(line, "bloom memory agent") || strings.Contains(line, "bloom worker") {
		if !within(stageLimit, func() bool {
			return strings.Contains(said.String(), "moves the memory of garden") || strings.Contains(said.String(), "Worker ")
		}) {
			t.Errorf("%s: %s", line, &said)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // however it reports that it was stopped
		return
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v: %s", line, err, &said)
	}
}
