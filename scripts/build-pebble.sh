#!/usr/bin/env bash
# build-pebble.sh builds Let's Encrypt's test authority and its name server, which the
# tests run, once, into .tools.
set -euo pipefail
cd "$(dirname "$0")/../tools/pebble"

bin=../../.tools/bin
wanted=$(cat go.mod go.sum | sha256sum | cut -d ' ' -f 1)
if [[ -x $bin/pebble && -x $bin/pebble-challtestsrv && $(cat $bin/pebble.version 2>/dev/null) == "$wanted" ]]; then
	exit 0
fi
echo "test-deps: building Pebble (once, half a minute)" >&2
mkdir -p $bin
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $bin/ tool
echo "$wanted" >$bin/pebble.version
