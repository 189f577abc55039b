// Package deploy holds the files that an installation is made of: service
// definitions for OpenRC and systemd, their users and folders, log rotation and
// environment files. Packages ship them, and bloom service install writes them;
// there is no second copy. It knows nothing of the program.
package deploy

import "embed"

// Files are the files that the program carries.
//
//go:embed openrc systemd sysusers tmpfiles logrotate env
var Files embed.FS
