# system.sh makes of the namespaces that a test's script runs in a machine that has
# just booted OpenRC. What is written to /etc, /usr and /var goes to $work.

fail() {
	echo "FAILED: $*"
	tail -n 20 /var/log/bloom-* /var/log/rc.log 2>/dev/null || true
	exit 1
}
await() { # await WHAT COMMAND…
	what=$1
	shift
	for _ in $(seq 1200); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	fail "$what did not happen: $*"
}

for dir in etc usr var; do
	mkdir -p "$work/$dir/upper" "$work/$dir/work"
	mount -t overlay overlay -o "lowerdir=/$dir,upperdir=$work/$dir/upper,workdir=$work/$dir/work" "/$dir"
done
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /usr/local/bin
ip link set lo up
# OpenRC as after a boot, with a network and nothing else.
mkdir -p /run/lock
for dir in daemons exclusive failed hotplugged inactive init.d options scheduled started starting stopping tmp wasinactive; do
	mkdir -p "/run/openrc/$dir"
done
rm -rf /etc/init.d/* /etc/runlevels/*
mkdir -p /etc/runlevels/default
cat >/etc/init.d/network <<'NET'
#!/sbin/openrc-run
depend() { provide net; }
start() { :; }
NET
chmod 755 /etc/init.d/network
touch /run/openrc/softlevel
