#!/usr/bin/env bash
# version.sh prints the version of this checkout: 0.1.0 at the tag v0.1.0, otherwise that of the next
# release with the commit: 0.1.0-dev+abc1234, and .dirty if files are changed.
set -euo pipefail
cd "$(dirname "$0")/.."

next=$(sed -n 's/^const next = "\(.*\)".*/\1/p' internal/cli/version.go)
commit=$(git rev-parse --short HEAD 2>/dev/null) || { echo "$next-dev"; exit; }
dirty=''
git diff-index --quiet HEAD -- || dirty=.dirty
if tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null) && [[ -z $dirty ]]; then
	echo "${tag#v}"
else
	echo "$next-dev+$commit$dirty"
fi
