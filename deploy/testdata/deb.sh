#!/bin/sh
# deb.sh installs, starts, upgrades, removes and purges the real package with the real
# dpkg, in namespaces of its own. usage: deb.sh OLD.deb NEW.deb WORKDIR
set -eu
old=$1 new=$2 work=$3
. "$(dirname "$0")/system.sh"
export BLOOM_RUNTIME_URL=http://127.0.0.1:5000 DEBIAN_FRONTEND=noninteractive
key=/etc/bloom/runtime.key

dpkg -i "$old" || fail "install"
bloom --version | grep -q v1.0.0 || fail "wrong version: $(bloom --version)"
[ -z "$(pgrep -f '/usr/bin/bloom (server|membridge|worker)')" ] || fail "it started unasked"
rc-service bloom-membridge start && rc-service bloom-runtime start && rc-service bloom-worker start || fail "start"
await "the server answers" bloom stats --key-file $key
await "the worker is known" sh -c "bloom workers --key-file $key | grep -q online"
task=$(bloom task submit "upgrade me" --label nobody --key-file $key) || fail "submit"
echo "ok: installed"

sed -i 's/^PORT=5000/PORT=5001/' /etc/bloom-runtime.env
export BLOOM_RUNTIME_URL=http://127.0.0.1:5001
before=$(cat $key)
dpkg -i "$new" || fail "upgrade"
bloom --version | grep -q v1.0.1 || fail "wrong version: $(bloom --version)"
await "the new server answers with the old settings and key" bloom stats --key-file $key
[ "$(cat $key)" = "$before" ] || fail "the key is another"
bloom task list --key-file $key | grep -q "upgrade me" || fail "the task is gone"
curl -fs "$BLOOM_RUNTIME_URL/health" | grep -q '"version":"v1.0.1"' || fail "health shows another version"
echo "ok: upgraded"

dpkg -r bloom-runtime || fail "remove"
[ -z "$(pgrep -f '/usr/bin/bloom (server|membridge|worker)')" ] || fail "something still runs"
[ ! -e /usr/bin/bloom ] || fail "the program is left"
[ -s $key ] && [ -s /etc/bloom-runtime.env ] && [ -s /var/lib/bloom/bloom.db ] || fail "settings, keys or data are gone"
dpkg -P bloom-runtime || fail "purge"
[ ! -e /etc/bloom ] && [ ! -e /etc/bloom-runtime.env ] && [ ! -e /etc/init.d/bloom-runtime ] || fail "settings are left"
[ -s /var/lib/bloom/bloom.db ] || fail "the data is gone"
echo "ok: removed"
