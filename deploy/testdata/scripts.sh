#!/bin/sh
# scripts.sh runs the packages' scripts with programs in place of the init systems' that
# note what they are asked for.
# usage: scripts.sh WORKDIR
set -eu
work=$1
. "$(dirname "$0")/system.sh"

note() { # note PROGRAM…
	for program in "$@"; do
		printf '#!/bin/sh\necho "${0##*/} $*" >>%s/asked\n' "$work" >"$program"
		chmod 755 "$program"
	done
}
asked() { # asked LINE
	grep -qxF "$1" "$work/asked" || fail "nobody asked for '$1': $(cat "$work/asked")"
}
note /usr/local/bin/systemctl /usr/local/bin/rc-service /usr/local/bin/rc-update /usr/bin/bloom
printf '#!/bin/sh\nexit 1\n' >/usr/local/bin/bloom # of an earlier version
chmod 755 /usr/local/bin/bloom

mkdir -p /run/systemd/system /etc/systemd/system
touch /etc/systemd/system/bloom-worker.service
sh packages/postinstall.sh 2>"$work/warned" || fail "installation: $(cat "$work/warned")"
asked "bloom --config /dev/null service install runtime membridge worker --packaged --init systemd"
grep -q '^/etc/systemd/system/bloom-worker.service is used instead' "$work/warned" || fail "another definition is used silently"
: >"$work/asked"
sh packages/preremove.sh remove || fail "removal"
[ "$(head -n 1 "$work/asked")" = "systemctl stop bloom-runtime.socket" ] || fail "the socket starts the server again: $(cat "$work/asked")"
asked "systemctl disable bloom-runtime.socket"
echo "ok: systemd"

rm -rf /run/systemd "$work/asked"
touch /etc/init.d/bloom-worker
ln -s bloom-worker /etc/init.d/bloom-worker.two
sh packages/postinstall.sh || fail "installation"
asked "rc-service bloom-worker.two restart"
sh packages/preremove.sh remove || fail "removal"
asked "rc-service bloom-worker.two stop"
[ ! -L /etc/init.d/bloom-worker.two ] || fail "a link to nothing is left"
echo "ok: openrc"
