#!/usr/bin/env bash
# test-deps.sh installs what the tests run besides Go: the claude command line
# from npm (into .tools), and from the system's packages, when we may, PostgreSQL's
# server programs, nginx, PgBouncer, OpenRC, systemd's tools and logrotate. What is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-claude.sh >/dev/null
scripts/build-minio.sh

have() {
	command -v "$1" >/dev/null 2>&1 || [[ -x /usr/sbin/$1 ]] || compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null
}
missing=()
have initdb || missing+=(postgresql)
have nginx || missing+=(nginx-light)
have pgbouncer || missing+=(pgbouncer)
have openrc-run || missing+=(openrc)
have logrotate || missing+=(logrotate)
have systemd-analyze || missing+=(systemd)
have ip || missing+=(iproute2)
((${#missing[@]} == 0)) && exit 0

# Without PostgreSQL its tests fail; those of the other programs are skipped.
cannot() {
	echo "test-deps: $1: ${missing[*]}" >&2
	have initdb && exit 0
	echo "test-deps: install PostgreSQL 15 or newer (Debian: apt-get install postgresql) or its tests will fail." >&2
	exit 1
}
sudo=()
if ((EUID != 0)); then
	if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
		cannot "cannot be installed from here"
	fi
	sudo=(sudo -n)
fi
command -v apt-get >/dev/null 2>&1 || cannot "install with your system's package manager"

# Only the programs are wanted: no cluster, no service.
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" mkdir -p /etc/postgresql-common
if [[ ! -e /etc/postgresql-common/createcluster.conf ]]; then
	echo 'create_main_cluster = false' | "${sudo[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
if [[ ! -e /usr/sbin/policy-rc.d ]]; then
	printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee /usr/sbin/policy-rc.d >/dev/null
	"${sudo[@]}" chmod 755 /usr/sbin/policy-rc.d
	trap '"${sudo[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
fi
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
