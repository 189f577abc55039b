#!/usr/bin/env bash
# run.sh starts `bloom up`. When there is no claude on the PATH it fetches one
# into .tools first; without npm it starts all the same and bloom says what is
# missing.
set -euo pipefail
cd "$(dirname "$0")/.."

args=("$@")
if ! command -v claude >/dev/null 2>&1 && [[ -z ${BLOOM_CLAUDE:-} ]]; then
	if claude=$(scripts/install-claude.sh); then
		args=(--claude "$claude" ${args[@]+"${args[@]}"})
	else
		echo "run: going on without claude; tasks wait until it is there" >&2
	fi
fi
exec bin/bloom up ${args[@]+"${args[@]}"} # macOS has bash 3.2, for which an empty array is unset
