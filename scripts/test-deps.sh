#!/usr/bin/env bash
# test-deps.sh installs what the tests run besides Go: the claude command line
# from npm (into .tools) and PostgreSQL's server programs (from the system's
# packages, when we may). What is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-claude.sh >/dev/null

have_postgres() {
	command -v initdb >/dev/null 2>&1 || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}
have_postgres && exit 0

sudo=()
if ((EUID != 0)); then
	if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
		echo "test-deps: PostgreSQL's programs are missing and cannot be installed from here." >&2
		echo "test-deps: install them (Debian: apt-get install postgresql) or its tests will fail." >&2
		exit 1
	fi
	sudo=(sudo -n)
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "test-deps: install PostgreSQL 15 or newer with your system's package manager." >&2
	exit 1
fi
# Only the programs are wanted: no cluster, no service.
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" mkdir -p /etc/postgresql-common
if [[ ! -e /etc/postgresql-common/createcluster.conf ]]; then
	echo 'create_main_cluster = false' | "${sudo[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends postgresql
