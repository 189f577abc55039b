#!/bin/sh
# walk.sh follows docs/guides/several-machines.md on three machines that it boots: a server and
# two workers. It runs as root in mount, process and network namespaces of its own.
# usage: walk.sh "SERVER WORKER-1 WORKER-2" DEBIAN-ROOT DIST COMMANDS WORKDIR
# Each system is debian (a debootstrap root, its systemd booted by systemd-nspawn) or
# alpine (a BusyBox root with the real OpenRC). COMMANDS holds what the page says, in
# files server-SYSTEM, worker-SYSTEM, task, watch and socket.
set -eu
systems=$1 debian=$2 dist=$3 commands=$4 work=$5

. "$(dirname "$0")/machines.sh"

# follow MACHINE PART runs what the page says there. The shell's variables and its umask
# last from one part to the next, as in one login.
follow() {
	{ echo 'set -eux'; cat "$commands/$2"; } >"$work/$1/root/root/part"
	on "$1" 'set -a; [ ! -e .walk ] || . ./.walk; . ./part; cd; export -p >.walk; echo "umask $(umask)" >>.walk' >"$work/$1-$2.log" 2>&1 ||
		fail "the page's commands fail on $1"
}
# bloom runs the program on the server, in the login that the page leaves.
bloom() { on server '. ./.walk; exec bloom "$@"' "$0" "$@"; }
online() { [ "$(bloom workers --json | grep -o '"status": *"online"' | wc -l)" = "$1" ]; }

ip link set lo up
# shellcheck disable=SC2086 # three words
set -- $systems

boot server "$1"
cp -r "$dist" "$work/server/root/root/dist"
follow server "server-$1"
on server 'curl -s http://bloom.example.org:5000/readyz' | grep -q 'HTTPS server' || fail "plain HTTP is not refused"
on server 'curl -s https://bloom.example.org:5000/readyz' && fail "curl trusts an authority that nobody named"
echo "ok: served over TLS"

for worker in worker-1 worker-2; do
	boot "$worker" "$2"
	cp "$work/server/root/root/authority/ca.pem" "$work/server/root/root/$worker.key" "$work/$worker/root/root/"
	sed "s/^WORKER=worker-1\$/WORKER=$worker/" "$commands/worker-$2" >"$commands/$worker"
	follow "$worker" "$worker"
	shift
done
await "both workers are online" online 2
echo "ok: joined"

follow server task
for pair in worker-1:worker-2 worker-2:worker-1; do
	bloom workers drain "${pair%:*}" >/dev/null || fail "drain"
	bloom task run "Say hello" >"$work/answer" || fail "a task fails with ${pair%:*} drained: $(cat "$work/answer")"
	grep -q "hello from ${pair#*:}" "$work/answer" || fail "with ${pair%:*} drained: $(cat "$work/answer")"
	bloom workers undrain "${pair%:*}" >/dev/null || fail "undrain"
done
echo "ok: each worker ran a task"

monitored() {
	follow server watch
	asked() { on server 'promtool query instant http://127.0.0.1:9090 "$1"' "$0" "$1" | grep -q "=> $2 @"; }
	await "Prometheus reads the metrics" asked 'up{job="bloom"}' 1
	await "Prometheus sees the workers" asked 'max(bloom_workers{status="online"})' 2
	on server 'curl -fsS http://127.0.0.1:9090/api/v1/rules' | grep -q BloomServerDown || fail "Prometheus has no alert rules"
	echo "ok: monitored"
}

# restarted asks all the while, each time on a connection of its own.
restarted() {
	follow server socket
	for _ in 1 2; do
		(
			while [ ! -e "$work/enough" ]; do
				curl -s -o /dev/null -w '%{http_code} %{exitcode}\n' --cacert "$work/server/root/etc/bloom/ca.pem" --resolve bloom.example.org:5000:127.0.0.1 https://bloom.example.org:5000/healthz
			done >>"$work/seen"
		) &
		askers="${askers:-} $!"
	done
	answered() { [ "$(wc -l <"$work/seen")" -gt "$1" ]; }
	await "the server is asked" answered 10
	for _ in 1 2; do
		on server 'systemctl restart bloom-runtime' || fail "restart"
		await "the server is asked on" answered "$(($(wc -l <"$work/seen") + 20))"
	done
	touch "$work/enough"
	# shellcheck disable=SC2086 # each of them
	wait $askers
	grep -qv '^\(200\|503\) 0$' "$work/seen" && fail "connections were refused: $(sort "$work/seen" | uniq -c)"
	echo "ok: restarted without a refusal"
}

# literal gives systemd a setting of which it would change every character but for quotes.
literal() {
	odd='"b\c $d`'\'
	on server 'bloom service install memory --user ann --init systemd --root ~/image --set "MINIO_SECRET_KEY=$0"' "$odd" >"$work/literal.log" 2>&1 || fail "install memory"
	printf '[Service]\nType=oneshot\nEnvironmentFile=/root/image/etc/bloom-memory.ann.env\nExecStart=/bin/sh -c "printenv MINIO_SECRET_KEY >/root/literal"\n' >"$work/server/root/etc/systemd/system/literal.service"
	on server 'systemctl start literal' || fail "systemctl start literal"
	got=$(cat "$work/server/root/root/literal")
	[ "$got" = "$odd" ] || fail "systemd reads $got instead of $odd"
	echo "ok: settings are literal"
}

# Alpine's package of Prometheus cannot be had, and OpenRC holds no sockets.
case $systems in
debian*)
	monitored
	literal
	restarted
	;;
esac

on server 'bloom service uninstall runtime membridge' >"$work/uninstall.log" 2>&1 || fail "uninstall"
for port in 5000 8000; do
	code=0
	curl -sk -o /dev/null "https://127.0.0.1:$port/" || code=$?
	[ "$code" = 7 ] || fail "port $port is still taken"
done
on server 'ls /etc/init.d/bloom-* /etc/systemd/system/bloom-*.service /etc/systemd/system/bloom-*.socket' 2>/dev/null && fail "service definitions are left"
[ -s "$work/server/root/etc/bloom/runtime.key" ] && [ -s "$work/server/root/var/lib/bloom/bloom.db" ] || fail "keys or data are gone"
echo "ok: uninstalled"
