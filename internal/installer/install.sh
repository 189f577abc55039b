#!/bin/sh
# Makes this machine a worker of the BLOOM server that it was fetched from:
#
#   curl -fsSL SERVER/install.sh | sudo sh -s -- --key KEY
#
# It fetches the program for this processor from that server, compares its checksum,
# installs it with a service for the worker, and starts it. Running it again updates.
set -eu

main() {
	server=@SERVER@ key='' key_file='' ca_file='' name='' slots='' start=yes

	while [ $# -gt 0 ]; do
		case $1 in
		--key | --key-file | --ca-file | --name | --max-concurrency | --slots)
			[ $# -gt 1 ] || fail "$1 needs a value"
			case $1 in
			--key) key=$2 ;;
			--key-file) key_file=$2 ;;
			--ca-file) ca_file=$2 ;;
			--name) name=$2 ;;
			--max-concurrency | --slots) slots=$2 ;;
			esac
			shift 2
			;;
		--no-start)
			start=no
			shift
			;;
		-h | --help)
			usage
			exit 0
			;;
		*) fail "unknown option $1; --help lists them" ;;
		esac
	done

	[ "$(uname -s)" = Linux ] || fail "workers are built for Linux, and this is $(uname -s)"
	case $(uname -m) in
	x86_64 | amd64) processor=amd64 ;;
	aarch64 | arm64) processor=arm64 ;;
	armv7* | armv8l) fail "Claude Code does not run on 32-bit ARM, so this machine cannot be a worker; install a 64-bit system" ;;
	*) fail "there is no program for the processor $(uname -m)" ;;
	esac
	[ "$(id -u)" = 0 ] || fail "services belong to root: pipe into \"sudo sh\" instead of \"sh\""
	[ -z "$key" ] || [ -z "$key_file" ] || fail "give --key or --key-file, not both"
	[ -z "$key_file" ] || [ -r "$key_file" ] || fail "$key_file cannot be read"
	[ -z "$ca_file" ] || [ -r "$ca_file" ] || fail "$ca_file cannot be read"

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM HUP

	file=bloom-linux-$processor
	echo "fetching $file from $server"
	fetch "$server/download/SHA256SUMS" "$work/SHA256SUMS" || fail "$server does not answer"
	grep "  $file\$" "$work/SHA256SUMS" >"$work/sum" ||
		fail "$server has no program for $processor; start it with --dist-dir and the folder that \"make cross\" writes"
	fetch "$server/download/$file" "$work/$file" || fail "$file could not be fetched"
	(cd "$work" && sha256sum -c sum >/dev/null 2>&1) || fail "$file is damaged: its checksum is another; try again"
	chmod 755 "$work/$file"
	"$work/$file" --version >/dev/null ||
		fail "the program does not run from $work; if that is mounted noexec, set TMPDIR to another folder: sudo TMPDIR=/root sh -s -- …"

	set -- worker --set "BLOOM_RUNTIME_URL=$server"
	[ -z "$name" ] || set -- "$@" --set "BLOOM_WORKER_NAME=$name"
	[ -z "$slots" ] || set -- "$@" --set "BLOOM_MAX_CONCURRENCY=$slots"
	if [ -n "$key" ]; then
		(umask 077 && printf '%s\n' "$key" >"$work/key")
		key_file=$work/key
	fi
	[ -z "$key_file" ] || set -- "$@" --worker-key-file "$key_file"
	[ -z "$ca_file" ] || set -- "$@" --worker-ca-file "$ca_file"
	[ "$start" = no ] || set -- "$@" --now
	# It copies itself to /usr/local/bin.
	"$work/$file" service install "$@"
	command -v claude >/dev/null 2>&1 || echo "claude is not installed here yet: npm install -g @anthropic-ai/claude-code"
}

usage() {
	cat <<'USAGE'
curl -fsSL SERVER/install.sh | sudo sh -s -- [OPTION…]
  --key KEY        the worker key that the server was started with, or one for this worker
  --key-file FILE  a file with it, which keeps it out of the process list
  --ca-file FILE   the authority (PEM) of the server's certificate, if the system does not know it
  --name NAME      the worker's name (default: this machine's)
  --max-concurrency N
                   tasks at once (default: 2)
  --no-start       install only
USAGE
}

fetch() { # fetch URL FILE
	if command -v curl >/dev/null 2>&1; then
		curl -fsSL --retry 3 ${ca_file:+--cacert "$ca_file"} -o "$2" "$1"
	elif command -v wget >/dev/null 2>&1; then
		wget -q ${ca_file:+--ca-certificate="$ca_file"} -O "$2" "$1"
	else
		fail "neither curl nor wget is installed"
	fi
}

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

# Called at the very end, so that half a script does nothing.
main "$@"
