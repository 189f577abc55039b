#!/usr/bin/env bash
# fuzz.sh runs every fuzz target of the module for a while. go test takes one
# target of one package at a time. usage: scripts/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-1m}
grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u | while read -r dir; do
	grep -rhoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //' | while read -r target; do
		echo "== $dir $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir" </dev/null
	done
done
