#!/usr/bin/env bash
# demo.sh shows that all parts work, with no account: a whole runtime in a
# folder of its own, the real claude command line, and a local stand-in in place
# of the model's API. Every answer is canned. On a terminal everything then stays up, on
# 127.0.0.1:5000 or DEMO_PORT, until Ctrl-C. It stops everything it started.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d "${TMPDIR:-/tmp}/bloom-demo.XXXXXX")
standin='' runtime=''
stop() {
	local pid
	# The runtime first, so that it can drain; then what it talked to.
	for pid in $runtime $standin; do
		kill -TERM "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

wait_for() { # wait_for SECONDS WHAT COMMAND…
	local tries=$(($1 * 10)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		if ((--tries <= 0)) || { [[ -n $runtime ]] && ! kill -0 "$runtime" 2>/dev/null; }; then
			echo "demo: $what did not come up" >&2
			cat "$work"/*.log >&2
			exit 1
		fi
		sleep 0.1
	done
}

stay='' port=${DEMO_PORT:-0}
if [[ -t 0 && -t 1 ]]; then
	stay=yes port=${DEMO_PORT:-5000}
fi
claude=$(command -v claude || scripts/install-claude.sh)

echo "DEMO: no model is asked. Every answer comes from a canned stand-in on this machine."
echo
bin/bloom-standin >"$work/standin.url" 2>"$work/standin.log" &
standin=$!
wait_for 10 "the stand-in" test -s "$work/standin.url"
read -r standin_url <"$work/standin.url"

mkdir -p "$work/home"
# Nothing of the user's own settings, login or keys takes part.
env -i PATH="$PATH" HOME="$work/home" TMPDIR="${TMPDIR:-/tmp}" LANG="${LANG:-C.UTF-8}" \
	ANTHROPIC_BASE_URL="$standin_url" ANTHROPIC_API_KEY=canned-stand-in-key \
	CLAUDE_CONFIG_DIR="$work/home/.claude" \
	DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
	"$PWD/bin/bloom" up --data-dir "$work/data" --listen "127.0.0.1:$port" --membridge-listen 127.0.0.1:0 --claude "$claude" --name demo-worker \
	>"$work/up.log" 2>&1 &
runtime=$!
# It says its own address: on a port of our choice another runtime might answer.
wait_for 30 "the runtime" grep -q '^BLOOM Runtime  http' "$work/up.log"
url=$(sed -n 's/^BLOOM Runtime  //p' "$work/up.log")

bloom() { env -i PATH="$PATH" HOME="$work/home" TERM="${TERM:-dumb}" LANG="${LANG:-C.UTF-8}" BLOOM_RUNTIME_URL="$url" "$PWD/bin/bloom" "$@"; }
wait_for 30 "the runtime" bloom stats

echo "\$ bloom task run \"Say hello in one line.\""
status=0
bloom task run "Say hello in one line." || status=$?
echo
echo "\$ bloom task list"
bloom task list
echo
echo "\$ bloom workers"
bloom workers
echo
if ((status != 0)); then
	echo "demo: the task did not complete (exit code $status)" >&2
	cat "$work/up.log" >&2
	exit 1
fi
echo "The task completed: server, store, worker and claude work together."
echo "The answer above was canned. For real ones: make run"
if [[ $stay ]]; then
	echo
	echo "The web application: $url    More tasks: bin/bloom run --url $url \"…\"    Ctrl-C stops everything."
	wait "$runtime"
fi
