package service

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
)

func (c Config) makeUser(r role) Step {
	if r.name == memory {
		return Step{Title: "find the user " + r.user, do: func(context.Context) (string, error) {
			_, err := user.Lookup(r.user)
			return "", err
		}}
	}
	return Step{Title: "create the system user " + r.user, do: func(ctx context.Context) (string, error) {
		if _, err := user.Lookup(r.user); err == nil {
			return unchanged, nil
		}
		home := "/var/lib/" + r.user
		commands := [][]string{{"useradd", "--system", "--user-group", "--home-dir", home, "--no-create-home", "--shell", "/usr/sbin/nologin", r.user}}
		if _, err := exec.LookPath("useradd"); err != nil { // Alpine's are BusyBox's
			commands = [][]string{{"addgroup", "-S", r.user}, {"adduser", "-S", "-D", "-H", "-h", home, "-s", "/sbin/nologin", "-G", r.user, r.user}}
		}
		for _, command := range commands {
			if _, err := run(false, command...).Do(ctx); err != nil {
				return "", err
			}
		}
		return "", nil
	}}
}

// own changes the owner of a file, on this machine only: the users of an image are not known here.
func (c Config) own(path, owner, group string) error {
	if c.Root != "" {
		return nil
	}
	u, err := user.Lookup(owner)
	if err != nil {
		return err
	}
	if group != "" {
		g, err := user.LookupGroup(group)
		if err != nil {
			return err
		}
		u.Gid = g.Gid
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return errors.Join(err1, err2, os.Chown(path, uid, gid))
}
