#!/bin/sh
# join.sh makes a machine with OpenRC a worker with the script that the server serves,
# in namespaces of its own. usage: join.sh BLOOM WORKDIR
set -eu
bloom=$1 work=$2
. "$(dirname "$0")/system.sh"
export BLOOM_RUNTIME_URL=http://127.0.0.1:5000

"$bloom" service install runtime --init openrc --set MEMBRIDGE_SERVER_URL=http://127.0.0.1:1 >/dev/null || fail "install"
rc-service bloom-runtime start || fail "start"
await "the server answers" bloom stats --key-file /etc/bloom/runtime.key
mv /usr/local/bin/bloom "$work/server" # a new machine has none

curl -fsSL http://127.0.0.1:5000/install.sh | sh -s -- --key "$(cat /etc/bloom/worker.key)" --name pi --slots 3 || fail "install.sh"
await "the worker is online" sh -c 'bloom workers --key-file /etc/bloom/runtime.key | grep pi | grep -q online'
cmp -s /usr/local/bin/bloom "$work/server" || fail "another program was installed"
[ "$(stat -c '%a %U %G' /etc/bloom-worker.key)" = "640 root bloom-worker" ] || fail "the key is open: $(stat -c '%a %U %G' /etc/bloom-worker.key)"
[ -L /etc/runlevels/default/bloom-worker ] || fail "it does not start with the machine"
grep -q '^BLOOM_MAX_CONCURRENCY=3$' /etc/bloom-worker.env || fail "the slots are not set"
echo "ok: joined"

before=$(pgrep -f -x '/usr/local/bin/bloom worker')
curl -fsSL http://127.0.0.1:5000/install.sh | sh || fail "install.sh again"
[ "$(pgrep -f -x '/usr/local/bin/bloom worker')" != "$before" ] || fail "the worker was not restarted"
await "the worker is online with the key and name it had" sh -c 'bloom workers --key-file /etc/bloom/runtime.key | grep pi | grep -q online'
echo "ok: updated"
