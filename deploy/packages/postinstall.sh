#!/bin/sh
# After installation or upgrade: users, folders, keys and settings, which are kept if
# they are there. Nothing is started that did not run before.
set -e
case ${1:-} in abort-*) exit 0 ;; esac
init=systemd
if [ ! -d /run/systemd/system ] && [ -x /sbin/openrc-run ]; then
	init=openrc
fi
bloom service install runtime membridge worker --packaged --init "$init"
# Memory agents run for persons: bloom-memory.ann, under systemd bloom-memory@ann.
agents='bloom-memory@*'
[ "$init" = systemd ] || agents=$(cd /etc/init.d && ls -d bloom-memory.* 2>/dev/null || true)
for service in bloom-membridge bloom-runtime bloom-worker $agents; do
	if [ -d /run/systemd/system ]; then
		systemctl try-restart "$service.service" || true
	elif [ "$init" = openrc ] && rc-service "$service" status >/dev/null 2>&1; then
		rc-service "$service" restart || true
	fi
done
