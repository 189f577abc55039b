package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// dbUser is the superuser of the temporary cluster.
const dbUser = "bloom"

// server is a running PostgreSQL. Its supervisor reads commands from standard input and ends when
// that closes.
type server struct {
	port string
	life io.WriteCloser
	says *bufio.Reader
	hear *os.File // what says reads
	wait func() error
}

// url is the connection string of one database of the server.
func (s *server) url(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%s/%s?sslmode=disable", dbUser, s.port, database)
}

// startServer launches the supervisor and waits until it reports a port. Settings
// are added to the supervisor's environment.
func startServer(settings ...string) (*server, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	reports, reportsEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), superviseEnv+"="+bin), settings...)
	// Not the test's own output: go test waits until every process that has it open is gone.
	cmd.Stdout = reportsEnd
	life, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	reportsEnd.Close()
	if err != nil {
		reports.Close()
		return nil, err
	}
	s := &server{life: life, says: bufio.NewReader(reports), hear: reports, wait: cmd.Wait}
	if s.port, err = s.answer(); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

// end makes the supervisor stop everything and waits for it.
func (s *server) end() error {
	s.life.Close()
	err := s.wait()
	s.hear.Close()
	return err
}

// order sends the supervisor a command and returns the port in its answer.
func (s *server) order(text string) (string, error) {
	if _, err := io.WriteString(s.life, text+"\n"); err != nil {
		return "", err
	}
	return s.answer()
}

// answer waits for the supervisor's next line: "port N" or "error …".
func (s *server) answer() (string, error) {
	if err := s.hear.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
		return "", err
	}
	line, err := s.says.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the supervisor said nothing: %w", err)
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if word != "port" {
		return "", errors.New(rest)
	}
	return rest, nil
}

// findBinaries returns the folder with initdb and postgres: BLOOM_PG_BIN, the
// newest of Debian's versioned folders, or the PATH.
func findBinaries() (string, error) {
	candidates := []string{os.Getenv("BLOOM_PG_BIN")}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	sort.Sort(sort.Reverse(sort.StringSlice(debian)))
	candidates = append(candidates, debian...)
	if path, err := exec.LookPath("initdb"); err == nil {
		candidates = append(candidates, filepath.Dir(path))
	}
	for _, dir := range candidates {
		if dir == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no PostgreSQL server binaries found (looked in BLOOM_PG_BIN, /usr/lib/postgresql/*/bin and PATH); run `make tools`")
}
