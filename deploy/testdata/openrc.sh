#!/bin/sh
# openrc.sh installs all roles under Debian's real OpenRC and starts, queries,
# breaks, stops and uninstalls them. It runs as root in mount, process and network
# namespaces of its own: nothing of it reaches the machine.
# usage: openrc.sh BLOOM WORKDIR
set -eu
bloom=$1 work=$2

. "$(dirname "$0")/system.sh"

export BLOOM_RUNTIME_URL=http://127.0.0.1:5000

"$bloom" service install runtime membridge worker --init openrc --now || fail "install"
await "the server answers" bloom stats --key-file /etc/bloom/runtime.key
for role in runtime membridge worker; do
	rc-service "bloom-$role" status | grep -q started || fail "bloom-$role is not started"
	[ -L "/etc/runlevels/default/bloom-$role" ] || fail "bloom-$role does not start with the machine"
	[ -s "/run/bloom-$role.pid" ] || fail "bloom-$role has no pidfile"
done
await "the worker is known" sh -c 'bloom workers --key-file /etc/bloom/runtime.key | grep -q online'
await "membridge is connected" sh -c 'curl -fs http://127.0.0.1:5000/health | grep -q "\"connected\":true"'
echo "ok: started"

server=$(pgrep -f -x "/usr/local/bin/bloom server")
[ "$(ps -o user= -p "$server")" = bloom ] || fail "the server runs as $(ps -o user= -p "$server")"
[ "$(stat -c %U "/proc/$(pgrep -f -x "/usr/local/bin/bloom worker")")" = bloom-worker ] || fail "the worker does not run as its own user"
su -s /bin/sh -c 'cat /etc/bloom/runtime.key' bloom-worker >/dev/null 2>&1 && fail "the worker's user can read the server's key"
su -s /bin/sh -c 'cat /etc/bloom-runtime.env' bloom >/dev/null 2>&1 && fail "the environment file is not root's alone"
echo "ok: separated"

kill -9 "$server"
await "the server is started again" bloom stats --key-file /etc/bloom/runtime.key
await "the worker comes back" sh -c 'bloom workers --key-file /etc/bloom/runtime.key | grep -q online'
echo "ok: started again after a crash"

odd='"b\c $d'\''' # a value in which every character may be lost
# Of a person whose home and group are not called as the person is.
useradd --create-home --home-dir /var/ann --gid users ann
chmod 755 /var/ann
"$bloom" service install memory --user ann --init openrc --now --set CLAUDE_PROJECT_ID=garden --set MINIO_ACCESS_KEY=a --set 'MINIO_SECRET_KEY=b c' --set "PRIMARY_NODE_ID=$odd" || fail "install memory"
await "the memory agent runs" grep -qs "/var/ann/.claude-mem/claude-mem.db" /var/log/bloom-memory.ann.log
rc-service bloom-memory.ann status | grep -q started || fail "bloom-memory.ann is not started"
[ -L /etc/runlevels/default/bloom-memory.ann ] || fail "bloom-memory.ann does not start with the machine"
agent=$(pgrep -f -x "/usr/local/bin/bloom memory agent")
[ "$(ps -o user=,group= -p "$agent" | tr -s ' ')" = "ann users" ] || fail "the agent runs as $(ps -o user=,group= -p "$agent")"
[ "$(stat -c '%U %G %a' /var/lib/bloom-memory.ann /var/ann /etc/bloom-memory.ann.env | tr '\n' ,)" = "ann users 700,ann users 755,root root 600," ] || fail "folders or settings are open: $(stat -c '%n %U %G %a' /var/lib/bloom-memory.ann /var/ann /etc/bloom-memory.ann.env)"
kill -9 "$agent"
await "the agent is started again" sh -c "pgrep -f -x '/usr/local/bin/bloom memory agent' | grep -qvx $agent"
printf '#!/bin/sh\n[ "$1" = config ] && printenv PRIMARY_NODE_ID >/run/literal || exec sleep 60\n' >/run/print
mkdir -p /etc/conf.d && chmod 755 /run/print && echo 'command=/run/print' >/etc/conf.d/bloom-memory.ann
rc-service bloom-memory.ann restart && [ "$(cat /run/literal)" = "$odd" ] || fail "a setting is not literal"
rc-service bloom-memory start 2>&1 | grep -q "names nobody who has a login here" || fail "bloom-memory starts for nobody"
ln -s bloom-memory /etc/init.d/bloom-memory.bob
rc-service bloom-memory.bob start 2>&1 | grep -q "names nobody who has a login here" || fail "bloom-memory.bob starts, though there is no bob"
bloom service uninstall memory --user ann --init openrc || fail "uninstall memory"
[ -e /etc/init.d/bloom-memory ] || fail "what bloom-memory.bob needs is gone"
rm /etc/init.d/bloom-memory.bob
bloom service uninstall memory --user ann --init openrc || fail "uninstall memory again"
[ ! -e /etc/init.d/bloom-memory ] && [ -s /etc/bloom-memory.ann.env ] || fail "the script is left, or the settings are gone"
[ -e /etc/logrotate.d/bloom ] || fail "the other services' logs are rotated no more"
[ -z "$(pgrep -f -x '/usr/local/bin/bloom memory agent')" ] || fail "the memory agent still runs"
echo "ok: memory agent"

# A forced rotation loses nothing that is written afterwards.
logrotate -f -s "$work/rotated" /etc/logrotate.d/bloom || fail "logrotate"
bloom stats --key-file /etc/bloom/runtime.key >/dev/null
await "the log goes on" grep -q 'GET /api/runtime/stats 200' /var/log/bloom-runtime.log
[ -s /var/log/bloom-runtime.log.1 ] || fail "nothing was rotated"
echo "ok: logs rotated"

install -d -o bloom /var/lib/bloom/.config/bloom
echo 'log_level = "debug"' >/var/lib/bloom/.config/bloom/config.toml
rc-service bloom-runtime reload || fail "reload"
await "the level of the log changes" grep -q 'msg=reloaded log_level=debug' /var/log/bloom-runtime.log
rm /var/lib/bloom/.config/bloom/config.toml
echo "ok: reloaded"

rc-service bloom-runtime stop || fail "stop"
rc-service bloom-runtime status >/dev/null && fail "it is started after a stop"
[ -z "$(pgrep -f -x '/usr/local/bin/bloom server')" ] || fail "the server still runs"
echo "ok: stopped"

refused() { # refused WHY
	rc-service bloom-runtime start >"$work/refused" 2>&1 && fail "it started: $1"
	grep -q "$1" "$work/refused" || fail "wanted '$1', got: $(cat "$work/refused")"
}
chmod 644 /etc/bloom-runtime.env
refused "mode 0600"
chmod 600 /etc/bloom-runtime.env
echo 'REAP INTERVAL' >>/etc/bloom-runtime.env
refused "not NAME=VALUE"
sed -i '$d' /etc/bloom-runtime.env
bloom service install runtime --init openrc --set BLOOM_REAP_INTERVAL=soon >/dev/null
refused "BLOOM_REAP_INTERVAL"
mkfifo "$work/settings" && chmod 666 "$work/settings"
bloom service install runtime --init openrc --set BLOOM_REAP_INTERVAL=20s >/dev/null
echo "BLOOM_CONFIG=$work/settings" >>/etc/bloom-runtime.env
refused "is a pipe, and nothing was written to it"
sed -i '/BLOOM_CONFIG/d' /etc/bloom-runtime.env
mv /usr/local/bin/bloom /usr/local/bin/gone
refused "is missing or cannot be run"
mv /usr/local/bin/gone /usr/local/bin/bloom
mv /etc/bloom-runtime.env /etc/gone
refused "bloom-runtime.env is missing"
mv /etc/gone /etc/bloom-runtime.env
bloom service install runtime --init openrc --set BLOOM_REAP_INTERVAL=20s --set 'BLOOM_TRUSTED_PROXIES=$(touch /run/evaluated)' >/dev/null
refused "BLOOM_TRUSTED_PROXIES: "
[ ! -e /run/evaluated ] || fail "the environment file was evaluated"
sed -i '/TRUSTED_PROXIES/d' /etc/bloom-runtime.env
rc-service bloom-runtime start || fail "start"
await "the server answers" bloom stats --key-file /etc/bloom/runtime.key
echo "ok: guarded"

bloom service uninstall runtime membridge worker --init openrc || fail "uninstall"
[ -z "$(pgrep -f '/usr/local/bin/bloom (server|worker|membridge)')" ] || fail "something still runs"
ls /etc/init.d/bloom-* /etc/runlevels/default/bloom-* /etc/logrotate.d/bloom 2>/dev/null && fail "something is left"
[ -s /etc/bloom-runtime.env ] && [ -s /etc/bloom/runtime.key ] && [ -s /var/lib/bloom/bloom.db ] || fail "settings, keys or data are gone"
echo "ok: uninstalled"
