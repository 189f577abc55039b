#!/usr/bin/env bash
# licenses.sh writes the licences of the Go modules, JavaScript and fonts that are built in to
# internal/cli/licenses, which the build embeds.
set -euo pipefail
cd "$(dirname "$0")/.."

web=() # what is in the web application, if that is built in
[[ ! -e internal/webui/dist/index.html.gz ]] || web=("$PWD/web/package-lock.json")
out=internal/cli/licenses/third-party.txt
echo "BLOOM Runtime is licensed under the Apache License 2.0." >"$out.new"
{
	GOOS=linux go list -deps -f '{{with .Module}}{{.Path}} {{.Version}} {{.Dir}}{{end}}' ./cmd/bloom | sort -u
	echo "Go $(go env GOVERSION) $(go env GOROOT)"
} | CGO_ENABLED=0 go run -C tools/licenses . "${web[@]}" >>"$out.new"
mv "$out.new" "$out"
