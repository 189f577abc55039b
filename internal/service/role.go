package service

// role describes one service.
type role struct {
	name string   // runtime, membridge, worker or memory
	user string   // it runs as
	keys []string // key files that it needs
}

// memory is the role that runs for a person and as that person.
const memory = "memory"

// group returns the group of the role's user; empty means the person's own.
func (r role) group() string {
	if r.name == memory {
		return ""
	}
	return r.user
}

func (r role) base() string { return "bloom-" + r.name }

// instance returns the base name of its files.
func (r role) instance() string {
	if r.name == memory {
		return r.base() + "." + r.user
	}
	return r.base()
}

// service returns its name in an init system.
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

// workerKey is the file with the API key of this machine's worker. It is not in keyFolder, because
// the worker's user must not read the server's keys.
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

// RoleNames returns the roles that can be installed.
func RoleNames() []string { return []string{"runtime", "membridge", "worker", memory} }
