package service

import (
	"path/filepath"

	"github.com/bloom-runtime/bloom/deploy"
)

// program returns the program's path for the services: its current one, if that is a folder for
// programs that does not belong to a user.
func (c Config) program() string {
	switch filepath.Dir(c.Program) {
	case "/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/bin", "/opt/bloom/bin":
		return c.Program
	}
	return "/usr/local/bin/bloom"
}

// content returns a file of package deploy.
func content(name string) []byte {
	raw, err := deploy.Files.ReadFile(name)
	if err != nil {
		panic(err) // embedded, so it exists
	}
	return raw
}

// paths returns the files that define a role's service; the first is the service itself.
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

// link returns the symbolic link that defines a person's service under OpenRC; empty for others.
func (c Config) link(r role) string {
	if c.Init == OpenRC && r.name == memory {
		return "/etc/init.d/" + r.instance()
	}
	return ""
}

// others returns a pattern for the files of other persons who share a role's definition.
func (c Config) others(r role) string {
	switch {
	case r.name != memory:
		return ""
	case c.Init == OpenRC:
		return "/etc/init.d/" + r.base() + ".*"
	}
	return "/etc/systemd/system/*.wants/" + r.base() + "@*.service"
}
