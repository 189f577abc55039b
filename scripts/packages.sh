#!/usr/bin/env bash
# packages.sh builds the release into dist/: programs, archives and packages for every platform we
# ship, a bill of materials for each program, the licences of what is in it, the alert rules, and
# checksums. Two builds of one commit give the same bytes.
# usage: [ARCHS="amd64 arm64 armv7"] [FORMATS="apk deb rpm"] [VERSION=…] scripts/packages.sh [DIR]
set -euo pipefail
cd "$(dirname "$0")/.."

dist=${1:-dist}
version=${VERSION:-$(scripts/version.sh)}
version=${version#v}
# Of the commit, not of the build.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

# Of 0.1.0-dev+abc1234, which packages cannot order, it is one below 0.1.0 that grows with commits.
PACKAGE_VERSION=${version%%[-+]*}
[[ $version == "$PACKAGE_VERSION" ]] || PACKAGE_VERSION+=-git$(git rev-list --count HEAD 2>/dev/null || echo 0)

mkdir -p "$dist"
scripts=$(mktemp -d) archive=$(mktemp -d)
trap 'rm -rf "$scripts" "$archive"' EXIT
# An apk has the times of its scripts' files, which differ from one checkout to another.
cp deploy/packages/*.sh "$scripts"
touch -d "$MTIME" "$scripts"/*
rm -f "$dist"/bloom-linux-* "$dist"/bloom-runtime[-_]* "$dist/bloom-alerts.yaml" "$dist/bloom-licenses.txt" "$dist/SHA256SUMS"
web=() # what is in the web application, if that is built in
[[ ! -e internal/webui/dist/index.html.gz ]] || web=(web/package-lock.json)
(cd tools/sbom && CGO_ENABLED=0 go build -trimpath -o ../../.tools/bin/sbom .)
scripts/licenses.sh
install -m 0644 internal/cli/licenses/third-party.txt "$dist/bloom-licenses.txt"
for shell in bash zsh fish; do
	go run -trimpath ./cmd/bloom completion "$shell" >"$scripts/completion.$shell"
done
go run -trimpath ./cmd/bloom man | gzip -9n >"$scripts/bloom.1.gz"
for ARCH in ${ARCHS:-amd64 arm64 armv7}; do
	goarch=$ARCH goarm=''
	[[ $ARCH != armv7 ]] || { goarch=arm goarm=7; }
	PROGRAM=$dist/bloom-linux-$ARCH
	GOOS=linux GOARCH=$goarch GOARM=$goarm CGO_ENABLED=0 go build -trimpath -buildvcs=false \
		-ldflags "-s -w -buildid= -X github.com/bloom-runtime/bloom/internal/cli.Version=$version" -o "$PROGRAM" ./cmd/bloom
	.tools/bin/sbom "$PROGRAM" "$version" "${web[@]}" >"$PROGRAM.cdx.json"
	# What an archive has, the packages have, too, and services besides.
	mkdir -p "$archive/bloom/completions"
	install -m 0755 "$PROGRAM" "$archive/bloom/bloom"
	install -m 0644 LICENSE "$scripts/bloom.1.gz" "$archive/bloom"
	install -m 0644 "$dist/bloom-licenses.txt" "$archive/bloom/third-party-licenses.txt"
	install -m 0644 "$scripts"/completion.* "$archive/bloom/completions"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$MTIME" --mode=u=rwX,go=rX -C "$archive" -c bloom | gzip -9n >"$PROGRAM.tar.gz"
	[[ $ARCH != armv7 ]] || ARCH=arm7
	# nfpm itself puts variables in some places only.
	sed -e "s|\${ARCH}|$ARCH|; s|\${PROGRAM}|$PROGRAM|; s|\${SCRIPTS}|$scripts|g; s|\${MTIME}|$MTIME|; s|\${LICENSES}|$dist/bloom-licenses.txt|; s|\${PACKAGE_VERSION}|$PACKAGE_VERSION|" deploy/packages/nfpm.yaml >"$dist/nfpm.yaml"
	for format in ${FORMATS:-apk deb rpm}; do
		.tools/bin/nfpm package --config "$dist/nfpm.yaml" --packager "$format" --target "$dist/" >/dev/null
	done
done
rm -f "$dist/nfpm.yaml"
install -m 0644 deploy/monitoring/alerts.yaml "$dist/bloom-alerts.yaml"
(cd "$dist" && sha256sum bloom-* >SHA256SUMS)
ls -l "$dist"
