#!/bin/sh
# After installation or upgrade: users, folders, keys and settings, which are kept if
# they are there. Nothing is started that did not run before.
set -e
case ${1:-} in abort-*) exit 0 ;; esac
init=systemd
if [ ! -d /run/systemd/system ] && [ -x /sbin/openrc-run ]; then
	init=openrc
fi
# This package's program, not one that install.sh has put into /usr/local/bin, and without
# root's own settings, a mistake in which would end the installation.
/usr/bin/bloom --config /dev/null service install runtime membridge worker --packaged --init "$init"
# Memory agents run for persons: bloom-memory.ann, under systemd bloom-memory@ann. A second
# worker under OpenRC is bloom-worker.two.
more='bloom-memory@*'
[ "$init" = systemd ] || more=$(cd /etc/init.d && ls -d bloom-worker.* bloom-memory.* 2>/dev/null || true)
for service in bloom-membridge bloom-runtime bloom-worker $more; do
	if [ -d /run/systemd/system ]; then
		systemctl try-restart "$service.service" || true
	elif [ "$init" = openrc ] && rc-service "$service" status >/dev/null 2>&1; then
		rc-service "$service" restart || true
	fi
done
# What bloom service install wrote before takes precedence over this package's units.
for unit in runtime.service runtime.socket membridge.service worker.service memory@.service; do
	unit=/etc/systemd/system/bloom-$unit
	[ ! -f "$unit" ] || echo "$unit is used instead of this package's: remove it, then run systemctl daemon-reload" >&2
done
