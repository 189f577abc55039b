#!/usr/bin/env bash
# test-deps.sh installs what the tests run besides Go: the claude command line from
# npm (into .tools), and missing system packages: PostgreSQL's server programs, nginx,
# PgBouncer, OpenRC, systemd's tools, logrotate, BusyBox and debootstrap. Packages are installed only as
# root, or with sudo when BLOOM_INSTALL=1 says so. No service is left enabled.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-claude.sh >/dev/null
scripts/build-minio.sh
scripts/build-pebble.sh
scripts/build-versitygw.sh

have() {
	command -v "$1" >/dev/null 2>&1 || [[ -x /usr/sbin/$1 ]] || compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null
}
missing=()
have initdb || missing+=(postgresql)
have nginx || missing+=(nginx-light)
have pgbouncer || missing+=(pgbouncer)
have "${CHROMIUM:-chromium}" || missing+=(chromium)
have openrc-run || missing+=(openrc)
have logrotate || missing+=(logrotate)
have systemd-analyze || missing+=(systemd)
have ip || missing+=(iproute2)
have busybox || missing+=(busybox-static)
have systemd-nspawn || missing+=(systemd-container)
have debootstrap || missing+=(debootstrap)

# Some tests of deploy/ boot a bare Debian; where it cannot be made they are skipped.
bare_debian() {
	((EUID == 0)) && have debootstrap || return 0
	scripts/debian-root.sh || echo "test-deps: without a bare Debian, tests that boot one are skipped" >&2
}
if ((${#missing[@]} == 0)); then
	bare_debian
	exit 0
fi

# Without PostgreSQL its tests fail; those of the other programs are skipped.
cannot() {
	echo "test-deps: $1: ${missing[*]}" >&2
	have initdb && exit 0
	echo "test-deps: install PostgreSQL 15 or newer (Debian: apt-get install postgresql) or its tests will fail." >&2
	exit 1
}
sudo=()
if ((EUID != 0)); then
	[[ ${BLOOM_INSTALL:-} == 1 ]] || cannot "missing (BLOOM_INSTALL=1 installs it with sudo)"
	if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
		cannot "cannot be installed from here"
	fi
	sudo=(sudo -n)
fi
command -v apt-get >/dev/null 2>&1 || cannot "install with your system's package manager"

# Only the programs are wanted: no cluster, and no service, neither now nor at the
# next boot. What is written for that is taken away again.
export DEBIAN_FRONTEND=noninteractive
temporary=()
tidy() { ((${#temporary[@]} == 0)) || "${sudo[@]}" rm -f "${temporary[@]}"; }
trap tidy EXIT
put() { # PATH MODE CONTENT, unless the file is there
	[[ -e $1 ]] && return
	"${sudo[@]}" mkdir -p "$(dirname "$1")"
	temporary+=("$1")
	printf '%b' "$3" | "${sudo[@]}" tee "$1" >/dev/null
	"${sudo[@]}" chmod "$2" "$1"
}
put /etc/postgresql-common/createcluster.conf 644 'create_main_cluster = false\n'
put /usr/sbin/policy-rc.d 755 '#!/bin/sh\nexit 101\n'
put /etc/systemd/system-preset/00-bloom-tests.preset 644 'disable *\n'
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
for package in "${missing[@]}"; do
	for unit in $(dpkg -L "$package" 2>/dev/null | sed -n 's|^\(/usr\)\?/lib/systemd/system/\([^/@]*\.\(service\|timer\|socket\)\)$|\2|p'); do
		"${sudo[@]}" rm -f /etc/systemd/system/*.wants/"$unit"
	done
	for script in $(dpkg -L "$package" 2>/dev/null | sed -n 's|^/etc/init.d/||p'); do
		"${sudo[@]}" update-rc.d "$script" disable >/dev/null 2>&1 || true
	done
done
bare_debian
