#!/usr/bin/env bash
# bench.sh measures a fresh server in a folder of its own, with one client and
# with sixteen. usage: scripts/bench.sh [DURATION]
set -euo pipefail
cd "$(dirname "$0")/.."

duration=${1:-10s}
work=$(mktemp -d "${TMPDIR:-/tmp}/bloom-bench.XXXXXX")
server=''
stop() {
	[[ -z $server ]] || { kill -TERM "$server" 2>/dev/null && wait "$server"; } || true
	rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

bin/bloom server --data-dir "$work" --listen "127.0.0.1:${BENCH_PORT:-0}" --log-level warn >"$work/server.log" 2>&1 &
server=$!
# It says its own address: on a port of our choice another server might answer.
url=''
for _ in {1..100}; do
	url=$(sed -n 's/^BLOOM Runtime listens at \([^,]*\),.*/\1/p' "$work/server.log")
	[[ -n $url ]] && bin/bloom stats --url "$url" >/dev/null 2>&1 && break
	kill -0 "$server" 2>/dev/null || { cat "$work/server.log" >&2; exit 1; }
	sleep 0.1
done
for clients in 1 16; do
	bin/bloom bench run --url "$url" -c "$clients" -d "$duration"
	echo
done
awk '/VmRSS|VmHWM/ { printf "%s %.0f MiB\n", $1, $2 / 1024 }' "/proc/$server/status"
