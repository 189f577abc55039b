#!/bin/sh
# Settings and keys go when the package is purged. Data in /var/lib stays.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "${1:-}" = purge ]; then
	rm -rf /etc/bloom
	rm -f /etc/bloom-runtime.env /etc/bloom-membridge.env /etc/bloom-worker.env /etc/bloom-memory.*.env /etc/bloom-worker.key /etc/bloom-worker-ca.pem
fi
