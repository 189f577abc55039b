#!/usr/bin/env bash
# build-minio.sh builds the MinIO server that the tests run, once, into .tools. A module
# of its own keeps its dependencies out of ours. It takes two to four minutes.
set -euo pipefail
cd "$(dirname "$0")/../tools/minio"

bin=../../.tools/bin
wanted=$(cat go.mod go.sum | sha256sum | cut -d ' ' -f 1)
if [[ -x $bin/minio && $(cat $bin/minio.version 2>/dev/null) == "$wanted" ]]; then
	exit 0
fi
echo "test-deps: building MinIO (once, two to four minutes)" >&2
mkdir -p $bin
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $bin/minio github.com/minio/minio
echo "$wanted" >$bin/minio.version
