#!/bin/sh
# deb.sh installs, starts, upgrades, removes and purges the real package with the real
# dpkg on a bare Debian with its systemd, in namespaces of its own.
# usage: deb.sh OLD.deb NEW.deb DEBIAN-ROOT WORKDIR
set -eu
old=$1 new=$2 debian=$3 work=$4
. "$(dirname "$0")/machines.sh"

sh_() { on deb 'export BLOOM_RUNTIME_URL=http://127.0.0.1:'"${port:=5000}"' BLOOM_API_KEY_FILE=/etc/bloom/runtime.key DEBIAN_FRONTEND=noninteractive; '"$1"; }
running() { sh_ 'systemctl is-active bloom-runtime bloom-membridge bloom-worker bloom-memory@ann' | grep -q '^active'; }

ip link set lo up
boot deb debian
cp "$old" "$work/deb/root/root/old.deb"
cp "$new" "$work/deb/root/root/new.deb"

sh_ 'dpkg -i old.deb' || fail "install"
sh_ 'bloom --version' | grep -q "bloom 1.0.0 " || fail "wrong version"
running && fail "it started unasked"
sh_ 'systemctl start bloom-membridge bloom-runtime bloom-worker' || fail "start"
await "the server answers" sh_ 'bloom stats'
await "the worker is known" sh_ 'bloom workers | grep -q online'
for role in runtime membridge; do
	folder=/var/lib/bloom # the home of both
	sh_ "install -d -o bloom $folder/.config/bloom && echo 'log_level = \"debug\"' >$folder/.config/bloom/config.toml && systemctl reload bloom-$role" || fail "reload"
	await "the level of the log changes" sh_ "journalctl --no-pager -u bloom-$role | grep 'msg=reloaded log_level=debug'"
done
sh_ 'bloom task submit "upgrade me" --label nobody' || fail "submit"
sh_ 'useradd --create-home ann && bloom service install memory --user ann --now --set CLAUDE_PROJECT_ID=garden --set MINIO_ACCESS_KEY=a --set MINIO_SECRET_KEY=b' || fail "install memory"
await "the memory agent runs" sh_ 'journalctl --no-pager -u bloom-memory@ann | grep -q " /home/ann/.claude-mem/claude-mem.db"'
agent=$(sh_ 'systemctl show -p MainPID --value bloom-memory@ann')
[ "$(sh_ "stat -c %U /proc/$agent")" = ann ] || fail "the memory agent runs as another user"
echo "ok: installed"

sh_ 'cp /etc/bloom/runtime.key before && sed -i "s/^PORT=5000/PORT=5001/" /etc/bloom-runtime.env'
port=5001
sh_ 'dpkg -i new.deb' || fail "upgrade"
sh_ 'bloom --version' | grep -q "bloom 1.0.1 " || fail "wrong version"
await "the new server answers with the old settings and key" sh_ 'bloom stats'
sh_ 'cmp before /etc/bloom/runtime.key' || fail "the key is another"
sh_ 'bloom task list' | grep -q "upgrade me" || fail "the task is gone"
curl -fs http://127.0.0.1:5001/health | grep -q '"version":"1.0.1"' || fail "health shows another version"
curl -fs -H "X-Runtime-API-Key: $(cat "$work/deb/root/etc/bloom/runtime.key")" http://127.0.0.1:5001/metrics | grep -q 'bloom_build_info{version="1.0.1"} 1' || fail "metrics show another version"
await "the memory agent is restarted" sh_ 'systemctl is-active bloom-memory@ann && [ "$(systemctl show -p MainPID --value bloom-memory@ann)" != '"$agent ]"
echo "ok: upgraded"

sh_ 'dpkg -r bloom-runtime' || fail "remove"
running && fail "something still runs"
sh_ '[ ! -e /usr/bin/bloom ]' || fail "the program is left"
sh_ '[ -s /etc/bloom/runtime.key ] && [ -s /etc/bloom-runtime.env ] && [ -s /var/lib/bloom/bloom.db ]' || fail "settings, keys or data are gone"
sh_ 'dpkg -P bloom-runtime' || fail "purge"
sh_ '[ ! -e /etc/bloom ] && [ ! -e /etc/bloom-runtime.env ] && [ ! -e /etc/bloom-memory.ann.env ] && [ ! -e /etc/init.d/bloom-runtime ]' || fail "settings are left"
sh_ '[ -s /var/lib/bloom/bloom.db ]' || fail "the data is gone"
echo "ok: removed"

# What systemd itself makes of the files for users and folders.
sh_ 'userdel bloom && userdel bloom-worker && rm -rf /var/lib/bloom* && dpkg-deb -x new.deb x' || fail "userdel"
sh_ 'systemd-sysusers ~/x/usr/lib/sysusers.d/bloom.conf && systemd-tmpfiles --create ~/x/usr/lib/tmpfiles.d/bloom.conf' || fail "sysusers or tmpfiles"
[ "$(sh_ 'stat -c "%U %G %a" /var/lib/bloom /var/lib/bloom-worker /etc/bloom' | tr '\n' ,)" = "bloom bloom 700,bloom-worker bloom-worker 700,root bloom 750," ] || fail "users or folders are others"
echo "ok: users and folders"
