// Package service sets up roles of the program as services of this machine, under
// OpenRC or systemd: users, folders, keys, settings and the service definitions,
// which are those of package deploy. It knows nothing of what the roles do.
package service

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom/deploy"
)

// Init is a system that runs services.
type Init string

// The systems that are known.
const (
	OpenRC  Init = "openrc"
	Systemd Init = "systemd"
)

// role is what one of our services consists of.
type role struct {
	name string   // runtime, membridge, worker or memory
	user string   // it runs as
	keys []string // files with keys that it needs
}

// memory is the role that runs for a person and as that person.
const memory = "memory"

// group is its user's own; empty is the one that a person has.
func (r role) group() string {
	if r.name == memory {
		return ""
	}
	return r.user
}

func (r role) base() string { return "bloom-" + r.name }

// instance is what its files are called.
func (r role) instance() string {
	if r.name == memory {
		return r.base() + "." + r.user
	}
	return r.base()
}

// service is what an init system calls it.
func (r role) service(init Init) string {
	if r.name == memory && init == Systemd {
		return r.base() + "@" + r.user
	}
	return r.instance()
}

func (r role) envFile() string { return "/etc/" + r.instance() + ".env" }
func (r role) home() string {
	if r.name == "runtime" {
		return "/var/lib/bloom"
	}
	return "/var/lib/" + r.instance()
}

// workerKey is the file with the key that this machine's worker shows. It is not in
// keyFolder: who runs as the worker's user must not read the server's keys.
const (
	keyFolder       = "/etc/bloom"
	workerKey       = "/etc/bloom-worker.key"
	workerAuthority = "/etc/bloom-worker-ca.pem"
)

var roles = []role{
	{"runtime", "bloom", []string{"runtime.key", "worker.key", "membridge.key"}},
	{"membridge", "bloom", []string{"membridge.key"}},
	{"worker", "bloom-worker", nil},
	{memory, "", nil}, // Config.User
}

// RoleNames are the roles that can be installed.
func RoleNames() []string { return []string{"runtime", "membridge", "worker", memory} }

// Config says what to set up.
type Config struct {
	Roles []string
	Init  Init // Detect finds it
	// Root is a folder that holds a whole system, for making images; empty is this
	// machine. Nothing is started and no user is made elsewhere than here.
	Root string
	// Program is this program's file.
	Program string
	// Settings are lines NAME=VALUE for the environment files of the roles.
	Settings []string
	// User is the person whose memory the role memory moves.
	User string
	// Key is what a worker shows to the server; empty takes the one of the server on
	// this machine.
	Key string
	// Authority is the certificate (PEM) of the authority that a worker trusts alone
	// for the server's; empty leaves that to the settings.
	Authority []byte
	// Packaged leaves out what a package brings itself: program, service definitions.
	Packaged bool
	// Start has the services started now and with the machine.
	Start bool
}

// Detect finds out which system runs services here.
func Detect(root string) (Init, error) {
	for _, known := range []struct {
		path string
		init Init
	}{
		// What runs now, then what is installed.
		{"/run/systemd/system", Systemd}, {"/run/openrc", OpenRC},
		{"/lib/systemd/systemd", Systemd}, {"/usr/lib/systemd/systemd", Systemd}, {"/sbin/openrc-run", OpenRC}, {"/usr/sbin/openrc-run", OpenRC},
	} {
		if _, err := os.Stat(filepath.Join(root, known.path)); err == nil {
			return known.init, nil
		}
	}
	return "", errors.New("found neither systemd nor OpenRC; name one with --init")
}

// Install is what has to be done to set the roles up. Whatever is there already is
// kept: settings, keys, data.
func Install(c Config) ([]Step, error) {
	chosen, err := c.choose()
	if err != nil {
		return nil, err
	}
	if err := c.check(chosen); err != nil {
		return nil, err
	}
	program := c.program()
	var steps []Step
	if c.Root == "" {
		for _, r := range chosen {
			steps = append(steps, c.makeUser(r))
		}
	}
	if slices.ContainsFunc(chosen, func(r role) bool { return len(r.keys) > 0 }) {
		steps = append(steps, c.folder(keyFolder, 0o750, "root", "bloom"))
	}
	if program != c.Program {
		steps = append(steps, c.copyProgram(program))
	}
	for _, r := range chosen {
		steps = append(steps, c.folder(r.home(), 0o700, r.user, r.group()))
		for _, key := range r.keys {
			steps = append(steps, c.key(filepath.Join(keyFolder, key), "", r.user))
		}
		if r.name == "worker" {
			steps = append(steps, c.key(workerKey, filepath.Join(keyFolder, "worker.key"), r.user))
			if len(c.Authority) > 0 {
				steps = append(steps, c.write(workerAuthority, c.Authority, 0o644))
				c.Settings = append(slices.Clone(c.Settings), "BLOOM_CA_FILE="+workerAuthority)
			}
		}
		steps = append(steps, c.environment(r))
		if !c.Packaged {
			steps = append(steps, c.definition(r, program))
		}
		if link := c.link(r); link != "" {
			steps = append(steps, c.symlink(link, r.base()))
		}
	}
	if c.Init == OpenRC && !c.Packaged {
		steps = append(steps, c.write("/etc/logrotate.d/bloom", content("logrotate/bloom"), 0o644))
	}
	return dedupe(append(steps, c.begin(chosen)...)), nil
}

// Uninstall is what has to be done to end the services and remove their
// definitions. Settings, keys and data stay.
func Uninstall(c Config) ([]Step, error) {
	chosen, err := c.choose()
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, r := range slices.Backward(chosen) {
		if c.Root == "" {
			for _, command := range c.ending(r) {
				steps = append(steps, run(true, command...))
			}
		}
		if link := c.link(r); link != "" {
			steps = append(steps, c.remove(link))
		}
		for _, path := range c.paths(r) {
			steps = append(steps, c.removeUnless(path, c.others(r)))
		}
	}
	if c.Init == OpenRC {
		steps = append(steps, c.removeUnless("/etc/logrotate.d/bloom", "/etc/init.d/bloom-*"))
	}
	if c.Init == Systemd && c.Root == "" {
		steps = append(steps, run(false, "systemctl", "daemon-reload"))
	}
	return steps, nil
}

// check refuses settings that would not be the ones that were meant.
func (c Config) check(chosen []role) error {
	if len(c.Settings) > 0 && len(chosen) > 1 {
		return errors.New("settings belong to one role: install one at a time")
	}
	for _, s := range c.Settings {
		name, _, found := strings.Cut(s, "=")
		if !found || name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" || strings.ContainsAny(s, "\n\r\x00") {
			return fmt.Errorf("%q is not a setting like PORT=5000", name)
		}
	}
	if strings.ContainsAny(c.Key, " \t\n\r") {
		return errors.New("a key holds no blanks or line breaks")
	}
	if len(c.Authority) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.Authority) {
		return errors.New("--worker-ca-file holds no certificate in PEM form")
	}
	return nil
}

func (c Config) choose() ([]role, error) {
	var chosen []role
	for _, r := range roles {
		if !slices.Contains(c.Roles, r.name) {
			continue
		}
		if r.name == memory {
			r.user = c.User
		}
		chosen = append(chosen, r)
	}
	if len(chosen) == 0 || len(chosen) < len(c.Roles) {
		return nil, fmt.Errorf("name each of these at most once: %s", strings.Join(RoleNames(), ", "))
	}
	if has := slices.Contains(c.Roles, memory); has != (c.User != "") {
		return nil, errors.New("--user names the person whose memory the role memory moves, and belongs to that role alone")
	}
	if c.User != "" && !userName.MatchString(c.User) {
		return nil, fmt.Errorf("--user: %q is no user's name", c.User)
	}
	return chosen, nil
}

// userName is what names of units and of files may hold as they are.
var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// program is where the services find the program: where it is, if that is a place
// for programs that no person's login owns.
func (c Config) program() string {
	switch filepath.Dir(c.Program) {
	case "/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/bin", "/opt/bloom/bin":
		return c.Program
	}
	return "/usr/local/bin/bloom"
}

// content is one of the files of package deploy.
func content(name string) []byte {
	raw, err := deploy.Files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return raw
}

// paths are the files that define a role's service; the first is the service itself.
func (c Config) paths(r role) []string {
	const units = "/etc/systemd/system/"
	switch {
	case c.Init == OpenRC:
		return []string{"/etc/init.d/" + r.base()}
	case r.name == memory:
		return []string{units + r.base() + "@.service"}
	case r.name == "runtime":
		return []string{units + "bloom-runtime.service", units + "bloom-runtime.socket"}
	}
	return []string{units + r.base() + ".service"}
}

// link is the symbolic link that is a person's service under OpenRC; empty for others.
func (c Config) link(r role) string {
	if c.Init == OpenRC && r.name == memory {
		return "/etc/init.d/" + r.instance()
	}
	return ""
}

// others are the files (a pattern) of persons besides whom a role's definition serves.
func (c Config) others(r role) string {
	switch {
	case r.name != memory:
		return ""
	case c.Init == OpenRC:
		return "/etc/init.d/" + r.base() + ".*"
	}
	return "/etc/systemd/system/*.wants/" + r.base() + "@*.service"
}

// begin starts the services, or says how to.
func (c Config) begin(chosen []role) (steps []Step) {
	if c.Root != "" {
		return nil
	}
	var commands [][]string
	if c.Init == Systemd {
		if _, err := os.Stat("/run/systemd/system"); err == nil || !c.Packaged {
			commands = append(commands, []string{"systemctl", "daemon-reload"})
		}
	}
	for _, r := range chosen {
		if c.Init == OpenRC {
			commands = append(commands, []string{"rc-update", "add", r.service(c.Init), "default"}, []string{"rc-service", r.service(c.Init), "restart"})
			continue
		}
		commands = append(commands, []string{"systemctl", "enable", r.service(c.Init)}, []string{"systemctl", "restart", r.service(c.Init)})
	}
	for _, command := range commands {
		if c.Start || command[len(command)-1] == "daemon-reload" {
			steps = append(steps, run(false, command...))
		} else {
			steps = append(steps, Step{Title: "to do by hand: " + strings.Join(command, " ")})
		}
	}
	return steps
}

func (c Config) ending(r role) [][]string {
	if c.Init == OpenRC {
		return [][]string{{"rc-service", "--ifexists", r.service(c.Init), "stop"}, {"rc-update", "--all", "del", r.service(c.Init)}}
	}
	if r.name == "runtime" {
		return [][]string{{"systemctl", "disable", "--now", "bloom-runtime.socket", "bloom-runtime.service"}}
	}
	return [][]string{{"systemctl", "disable", "--now", r.service(c.Init) + ".service"}}
}
