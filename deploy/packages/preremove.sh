#!/bin/sh
# Before removal, not before an upgrade, the services are stopped.
set -e
case ${1:-} in upgrade | 1 | failed-upgrade) exit 0 ;; esac
if [ -d /run/systemd/system ]; then
	# The socket first: it would start the server again with the next request.
	systemctl stop bloom-runtime.socket || true
	systemctl disable bloom-runtime.socket || true
fi
for service in bloom-worker bloom-runtime bloom-membridge; do
	if [ -d /run/systemd/system ]; then
		# Apart: disabling fails where the script in /etc/init.d cannot be disabled, too.
		systemctl stop "$service.service" || true
		systemctl disable "$service.service" || true
	elif [ -x /sbin/openrc-run ]; then
		rc-service "$service" stop || true
		rc-update --all del "$service" >/dev/null 2>&1 || true
	fi
done
# Memory agents run for persons, and second workers beside the first.
if [ -d /run/systemd/system ]; then
	systemctl stop 'bloom-memory@*.service' || true
	rm -f /etc/systemd/system/multi-user.target.wants/bloom-memory@*.service
elif [ -x /sbin/openrc-run ]; then
	for link in /etc/init.d/bloom-memory.* /etc/init.d/bloom-worker.*; do
		[ -L "$link" ] || continue
		rc-service "${link##*/}" stop || true
		rc-update --all del "${link##*/}" >/dev/null 2>&1 || true
		rm -f "$link"
	done
fi
