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

// dbUser is the superuser of the throwaway cluster.
const dbUser = "bloom"

// server is a running PostgreSQL. The supervisor's standard input is the pipe
// whose closing ends it; nothing is ever written to it.
type server struct {
	port string
	life io.WriteCloser
}

// url is the connection string of one database of the server.
func (s *server) url(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%s/%s?sslmode=disable", dbUser, s.port, database)
}

// startServer launches the supervisor and waits until it reports a port.
func startServer() (*server, error) {
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
	defer reports.Close()

	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), superviseEnv+"="+bin)
	// Not the test's own output: go test waits until every holder of it is gone.
	cmd.Stdout = reportsEnd
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	err = cmd.Start()
	reportsEnd.Close()
	if err != nil {
		return nil, err
	}
	port, err := readPort(reports)
	if err != nil {
		life.Close()
		return nil, errors.Join(err, cmd.Wait())
	}
	return &server{port: port, life: life}, nil
}

// readPort waits for the supervisor's one line: "port N" or "error …".
func readPort(reports *os.File) (string, error) {
	if err := reports.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(reports).ReadString('\n')
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
// newest of Debian's versioned folders, or what the PATH has.
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
