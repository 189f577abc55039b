#!/usr/bin/env bash
# fuzz.sh runs every fuzz target of the module for a while. go test takes one
# target of one package at a time. What it finds interesting is kept in .tools/fuzz and
# found again by the next run; what fails is written to testdata/fuzz. An interesting input
# is made smaller in a few tries: what reaches a whole server covers other code each time, and
# go test would spend the time on that, a minute an input.
# usage: scripts/fuzz.sh [TIME [TARGET]]
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-1m} only=${2:-}
corpus=$PWD/.tools/fuzz
grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u | while read -r dir; do
	grep -rhoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //' | while read -r target; do
		[ -z "$only" ] || [ "$only" = "$target" ] || continue
		echo "== $dir $target"
		mkdir -p "$corpus/$dir"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$dir" -test.fuzzcachedir "$corpus/$dir" </dev/null
	done
done
