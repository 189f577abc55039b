package service

import (
	"os"
	"strings"
)

// begin returns the steps that start the services, or instructions to do so.
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
			steps = append(steps, Step{Title: "run manually: " + strings.Join(command, " ")})
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
