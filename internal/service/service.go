// Package service sets up roles of the program as services of this machine, with OpenRC or systemd:
// users, folders, keys, settings and the service definitions from package deploy. It knows nothing
// about the roles' work.
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
)

// Init is an init system.
type Init string

// The supported init systems.
const (
	OpenRC  Init = "openrc"
	Systemd Init = "systemd"
)

// Config configures what to set up.
type Config struct {
	Roles []string
	Init  Init // Detect finds it
	// Root is the root folder of a system image; empty means this machine. In an image no services
	// are started and no users created.
	Root string
	// Program is the path of this program.
	Program string
	// Settings are lines NAME=VALUE for the environment files of the roles.
	Settings []string
	// User is the person whose memory the role memory moves.
	User string
	// Key is the worker's API key; empty uses the key of the server on this machine.
	Key string
	// Authority is the certificate (PEM) of the only authority that a worker trusts for the
	// server's certificate; empty leaves that to the settings.
	Authority []byte
	// Packaged leaves out what a package installs itself: the program and the service definitions.
	Packaged bool
	// Start starts the services now and at boot.
	Start bool
}

// Detect returns the init system of this machine.
func Detect(root string) (Init, error) {
	for _, known := range []struct {
		path string
		init Init
	}{
		// First what is running, then what is installed.
		{"/run/systemd/system", Systemd}, {"/run/openrc", OpenRC},
		{"/lib/systemd/systemd", Systemd}, {"/usr/lib/systemd/systemd", Systemd}, {"/sbin/openrc-run", OpenRC}, {"/usr/sbin/openrc-run", OpenRC},
	} {
		if _, err := os.Stat(filepath.Join(root, known.path)); err == nil {
			return known.init, nil
		}
	}
	return "", errors.New("found neither systemd nor OpenRC; choose one with --init")
}

// Install returns the steps that set up the roles. They keep existing settings, keys and data.
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

// Uninstall returns the steps that stop the services and remove their definitions. Settings, keys
// and data stay.
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

// check refuses settings that are probably mistakes.
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
		return errors.New("a key must not contain spaces or line breaks")
	}
	if len(c.Authority) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.Authority) {
		return errors.New("--worker-ca-file contains no PEM certificate")
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
		return nil, errors.New("--user names the person whose memory the role memory synchronizes, and is valid only for that role")
	}
	if c.User != "" && !userName.MatchString(c.User) {
		return nil, fmt.Errorf("--user: %q is not a valid user name", c.User)
	}
	return chosen, nil
}

// userName matches names that need no escaping in the names of units and files.
var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
