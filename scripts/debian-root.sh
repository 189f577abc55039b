#!/usr/bin/env bash
# debian-root.sh makes the bare Debian that deploy's tests boot, once, in
# .tools/debian-root: what debootstrap installs and an init system, apt's lists, and the
# archives of what docs/guides/several-machines.md has apt install, so that tests need no
# network. It needs root, debootstrap and a Debian mirror.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/.tools/debian-root
suite=bookworm
mirror=$(sed -n 's/^URIs: *\(\S*\).*/\1/p; s/^deb \(http\S*\) .*/\1/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1 || true)
wanted=$(cat scripts/debian-root.sh | sha256sum | cut -d ' ' -f 1)
[[ $(cat "$root/version" 2>/dev/null) != "$wanted" ]] || exit 0
((EUID == 0)) || { echo "debian-root: only root can make it" >&2; exit 1; }
echo "test-deps: making a bare Debian (once, a minute)" >&2

trap 'rm -rf "$root.new"' EXIT
rm -rf "$root.new"
mkdir -p "$root.new"
new=$root.new/root
debootstrap --variant=minbase --include=systemd-sysv,openrc "$suite" "$new" "${mirror:-http://deb.debian.org/debian}" >"$root.new/log" 2>&1 ||
	{ tail -n 20 "$root.new/log" >&2; exit 1; }
# What the page has apt install is fetched, not installed.
cp /etc/resolv.conf "$new/etc/resolv.conf"
echo 'Acquire::Retries "0";' >"$new/etc/apt/apt.conf.d/90offline"
chroot "$new" apt-get -qq update
chroot "$new" apt-get -qq install --download-only --no-install-recommends -y ca-certificates curl openssl logrotate prometheus >/dev/null
rm -f "$new"/var/cache/apt/*.bin
rm -f "$new/etc/resolv.conf" "$new/etc/machine-id" "$new/etc/hostname"
echo "$wanted" >"$root.new/version"
rm -rf "$root"
mv "$root.new" "$root"
