#!/bin/sh
# apk.sh puts the real package for Alpine into a BusyBox root with the real OpenRC: its
# files and scripts in the order in which apk, which cannot be had here, runs them.
# usage: apk.sh OLD.apk NEW.apk WORKDIR
set -eu
old=$1 new=$2 work=$3
. "$(dirname "$0")/machines.sh"

sh_() { on apk 'export BLOOM_RUNTIME_URL=http://127.0.0.1:5000 BLOOM_API_KEY_FILE=/etc/bloom/runtime.key; '"$1"; }
unpack() { # unpack PACKAGE SCRIPT ARGUMENTS
	cp "$1" "$work/apk/root/root/package.apk"
	sh_ "tar -xzf package.apk -C / && test -x /$2 && /$2 $3" || fail "$2"
}

ip link set lo up
boot apk alpine
unpack "$old" .post-install 1.0.0
sh_ 'bloom --version' | grep -q "bloom 1.0.0 " || fail "wrong version"
sh_ 'rc-service bloom-runtime status' && fail "it started unasked"
sh_ 'rc-service bloom-membridge start && rc-service bloom-runtime start && rc-service bloom-worker start' || fail "start"
await "the server answers" sh_ 'bloom stats'
await "the worker is known" sh_ 'bloom workers | grep -q online'
sh_ 'bloom task submit "upgrade me" --label nobody' || fail "submit"
sh_ 'addgroup -S ann && adduser -S -D -H -h /home/ann -s /bin/sh -G ann ann && mkdir -p /home/ann && chown ann:ann /home/ann' || fail "adduser"
sh_ 'bloom service install memory --user ann --now --set CLAUDE_PROJECT_ID=garden --set MINIO_ACCESS_KEY=a --set MINIO_SECRET_KEY=b' || fail "install memory"
await "the memory agent runs" sh_ 'grep -q " /home/ann/.claude-mem/claude-mem.db" /var/log/bloom-memory.ann.log'
agent=$(sh_ 'cat /run/bloom-memory.ann.pid')
echo "ok: installed"

unpack "$new" .post-upgrade "1.0.1 1.0.0"
await "the new server answers" sh_ 'curl -fs http://127.0.0.1:5000/health | grep "\"version\":\"1.0.1\""'
sh_ 'bloom task list' | grep -q "upgrade me" || fail "the task is gone"
await "the memory agent is restarted" sh_ '[ "$(cat /run/bloom-memory.ann.pid)" != '"$agent ]"
echo "ok: upgraded"

sh_ '/.pre-deinstall 1.0.1' || fail "remove"
for role in runtime membridge worker memory.ann; do
	sh_ "rc-service bloom-$role status" && fail "bloom-$role still runs"
done
sh_ '[ ! -e /etc/init.d/bloom-memory.ann ] && [ -s /etc/bloom-memory.ann.env ]' || fail "the memory agent is left, or its settings are gone"
sh_ 'rm /usr/bin/bloom && /.post-deinstall 1.0.1 && [ -s /etc/bloom/runtime.key ] && [ -s /var/lib/bloom/bloom.db ]' || fail "settings, keys or data are gone"
echo "ok: removed"
