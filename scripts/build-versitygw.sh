#!/usr/bin/env bash
# build-versitygw.sh builds the Versity S3 gateway, the second real object storage that the
# tests run, once, into .tools. A module of its own keeps its dependencies out of ours.
set -euo pipefail
cd "$(dirname "$0")/../tools/versitygw"

bin=../../.tools/bin
wanted=$(cat go.mod go.sum | sha256sum | cut -d ' ' -f 1)
if [[ -x $bin/versitygw && $(cat $bin/versitygw.version 2>/dev/null) == "$wanted" ]]; then
	exit 0
fi
echo "test-deps: building versitygw (once, half a minute)" >&2
mkdir -p $bin
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $bin/ tool
echo "$wanted" >$bin/versitygw.version
