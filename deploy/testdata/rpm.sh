#!/bin/sh
# rpm.sh installs, starts, upgrades and removes the real package with the real rpm on a
# machine with systemd, in namespaces of its own. The machine is a bare Debian with rpm.
# usage: rpm.sh OLD.rpm NEW.rpm DEBIAN-ROOT WORKDIR
set -eu
old=$1 new=$2 debian=$3 work=$4
. "$(dirname "$0")/machines.sh"

sh_() { on rpm 'export BLOOM_RUNTIME_URL=http://127.0.0.1:'"${port:=5000}"' BLOOM_API_KEY_FILE=/etc/bloom/runtime.key; '"$1"; }
running() { sh_ 'systemctl is-active bloom-runtime bloom-membridge bloom-worker' | grep -q '^active'; }

ip link set lo up
boot rpm debian
(cd "$root" && with_libraries "$(command -v rpm)" && cp -a /usr/lib/rpm usr/lib/)
cp "$old" "$root/root/old.rpm"
cp "$new" "$root/root/new.rpm"

sh_ 'rpm -i old.rpm' || fail "install"
sh_ 'bloom --version' | grep -q "bloom 1.0.0 " || fail "wrong version"
running && fail "it started unasked"
sh_ 'systemctl start bloom-membridge bloom-runtime bloom-worker' || fail "start"
await "the server answers" sh_ 'bloom stats'
await "the worker is known" sh_ 'bloom workers | grep -q online'
sh_ 'bloom task submit "upgrade me" --label nobody' || fail "submit"
sh_ 'rpm -V bloom-runtime' || fail "a file is not as the package has it"
echo "ok: installed"

sh_ 'cp /etc/bloom/runtime.key before && sed -i "s/^PORT=5000/PORT=5001/" /etc/bloom-runtime.env'
port=5001
sh_ 'rpm -U new.rpm' || fail "upgrade"
sh_ 'bloom --version' | grep -q "bloom 1.0.1 " || fail "wrong version"
await "the new server answers with the old settings and key" sh_ 'bloom stats'
sh_ 'cmp before /etc/bloom/runtime.key' || fail "the key is another"
sh_ 'bloom task list' | grep -q "upgrade me" || fail "the task is gone"
curl -fs http://127.0.0.1:5001/health | grep -q '"version":"1.0.1"' || fail "the earlier server still runs"
echo "ok: upgraded"

sh_ 'rpm -e bloom-runtime' || fail "remove"
running && fail "something still runs"
sh_ '[ ! -e /usr/bin/bloom ] && [ ! -e /etc/init.d/bloom-runtime ]' || fail "files are left"
sh_ '[ -s /etc/bloom/runtime.key ] && [ -s /etc/bloom-runtime.env ] && [ -s /var/lib/bloom/bloom.db ]' || fail "settings, keys or data are gone"
echo "ok: removed"
