# machines.sh boots machines in $work/NAME, for scripts that run as root in mount, process
# and network namespaces of their own. The machines share that network, which is a
# loopback, and find each other as bloom.example.org. $debian is a bare Debian.

fail() {
	echo "FAILED: $*"
	for log in "$work"/*.log "$work"/*/root/var/log/bloom-*.log; do
		[ ! -s "$log" ] || { echo "--- $log" && tail -n 30 "$log"; }
	done
	for machine in "$work"/*/leader; do
		[ ! -s "$machine" ] || on "$(basename "$(dirname "$machine")")" 'journalctl --no-pager -n 40' || true
	done
	exit 1
}
await() { # await WHAT COMMAND…
	what=$1
	shift
	for _ in $(seq 600); do
		"$@" >"$work/awaited" 2>&1 && return
		sleep 0.2
	done
	cat "$work/awaited"
	fail "$what did not happen: $*"
}

groups=bloom-test$(echo "$work" | tr -c 'a-zA-Z0-9\n' -)
# halt ends what was booted, and removes its control groups.
halt() {
	touch "$work/enough"
	for leader in "$work"/*/leader; do
		[ ! -s "$leader" ] || kill -KILL "$(cat "$leader")" 2>/dev/null || true
	done
	wait
	find /sys/fs/cgroup -depth -type d -path "*/$groups-*" -exec rmdir {} + 2>/dev/null || true
}
trap halt EXIT

# boot NAME SYSTEM
boot() {
	mkdir -p "$work/$1/upper" "$work/$1/work" "$work/$1/root"
	root=$work/$1/root
	"boot_$2" "$1"
	echo '127.0.0.1 localhost bloom.example.org' >"$root/etc/hosts"
	# It stands in for claude and is logged in when it was given an account.
	cat >"$root/usr/local/bin/claude" <<CLAUDE
#!/bin/sh
case "\$1" in
--version) echo "2.1.197 (Claude Code)"; exit 0 ;;
auth) [ -n "\${ANTHROPIC_API_KEY:-}" ] && echo '{"loggedIn":true,"authMethod":"api_key"}' || echo '{"loggedIn":false}'; exit 0 ;;
esac
session=11111111-1111-4111-8111-111111111111
echo '{"type":"system","subtype":"init","session_id":"'\$session'","tools":[]}'
read -r prompt
echo '{"type":"result","subtype":"success","is_error":false,"result":"hello from $1","session_id":"'\$session'","num_turns":1,"duration_ms":5,"usage":{"input_tokens":1,"output_tokens":1}}'
CLAUDE
	chmod 755 "$root/usr/local/bin/claude"
}

# on NAME COMMANDS [ARGUMENT…] runs sh there, as root's login would.
on() {
	into=$1 lines="cd; $2"
	shift 2
	set -- env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ANTHROPIC_API_KEY=stand-in sh -c "$lines" "$@"
	if [ -s "$work/$into/leader" ]; then
		nsenter --target "$(cat "$work/$into/leader")" --mount --uts --ipc --pid --root "$@"
	else
		chroot "$work/$into/root" "$@"
	fi
}

# boot_debian boots the bare Debian with its systemd.
boot_debian() {
	mount -t overlay overlay -o "lowerdir=$debian,upperdir=$work/$1/upper,workdir=$work/$1/work" "$root" || unable "no overlay file system"
	own_groups "$1" systemd-nspawn --quiet --keep-unit --register=no --machine="$1" --directory="$root" \
		--resolv-conf=off --timezone=off --link-journal=no --boot >"$work/$1.boot.log" 2>&1 </dev/null &
	container=$!
	for _ in $(seq 600); do
		booted "$1" >"$work/awaited" 2>&1 && return
		kill -0 "$container" 2>/dev/null || break
		sleep 0.2
	done
	cat "$work/$1.boot.log" "$work/awaited"
	unable "systemd does not boot in a container"
}
# unable ends a script on a machine that cannot boot another system.
unable() {
	echo "UNABLE: $*"
	exit 77
}
booted() {
	pgrep -P "$container" >"$work/$1/leader" && on "$1" '[ "$(cat /proc/1/comm)" = systemd ] && case $(systemctl is-system-running) in running | degraded) ;; *) exit 1 ;; esac'
}

# own_groups NAME COMMAND… becomes the command in control groups of its own, in which
# systemd-nspawn makes those of its system.
own_groups() {
	for tree in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
		[ ! -e "$tree/cgroup.procs" ] || { mkdir -p "$tree/$groups-$1" && echo 0 >"$tree/$groups-$1/cgroup.procs"; }
	done
	shift
	exec "$@"
}

# boot_alpine boots what Alpine is made of, but for its libc and its packages, which
# cannot be had here: BusyBox, and the real OpenRC with its scripts run by BusyBox's sh.
boot_alpine() {
	mount -t tmpfs tmpfs "$root"
	(
		cd "$root"
		mkdir -p usr/bin usr/sbin usr/lib usr/lib64 usr/local/bin etc/init.d etc/conf.d etc/runlevels/default etc/pam.d etc/ssl/certs proc dev run/lock tmp root \
			var/log var/lib
		ln -s usr/bin usr/sbin usr/lib usr/lib64 .
		chmod 1777 tmp
		cp "$(command -v busybox)" bin/busybox
		chroot . /bin/busybox --install -s
		for file in install openrc openrc-run rc-service rc-update rc-status start-stop-daemon supervise-daemon curl openssl; do
			with_libraries "$(command -v "$file")"
		done
		for file in $(dpkg -L openrc | grep -E '^(/usr)?/lib/rc/'); do
			[ ! -f "$file" ] || with_libraries "$file"
		done
		ln -s rc-service sbin/service
		cp /etc/rc.conf etc/ && cp /etc/ssl/openssl.cnf etc/ssl/
		mkdir -p usr/lib/ssl && ln -s /etc/ssl/openssl.cnf usr/lib/ssl/openssl.cnf
		# OpenRC opens a session of PAM where there is one; Alpine has none.
		module=$(find /lib/*/security /usr/lib/*/security -name pam_permit.so 2>/dev/null | head -n 1)
		mkdir -p ".$(dirname "$module")" && cp "$module" ".$module"
		printf '%s\n' 'auth required pam_permit.so' 'account required pam_permit.so' 'session required pam_permit.so' >etc/pam.d/other
		printf 'root:x:0:0:root:/root:/bin/sh\n' >etc/passwd
		printf 'root:x:0:\n' >etc/group
		printf 'root:*:::::::\n' >etc/shadow
		printf '#!/bin/sh\necho "apk $*: the packages are there"\n' >sbin/apk
		# Debian's BusyBox lacks the two that make users. They take what Alpine's take.
		cat >usr/sbin/addgroup <<-'ADD'
			#!/bin/sh
			set -eu
			[ $# = 2 ] && [ "$1" = -S ]
			echo "$2:x:$((100 + $(wc -l </etc/group))):" >>/etc/group
		ADD
		cat >usr/sbin/adduser <<-'ADD'
			#!/bin/sh
			set -eu
			system='' nohome='' group='' home='' shell=''
			while getopts SDHh:s:G: option; do
				case $option in
				S) system=yes ;;
				H) nohome=yes ;;
				h) home=$OPTARG ;;
				s) shell=$OPTARG ;;
				G) group=$(grep "^$OPTARG:" /etc/group | cut -d : -f 3) ;;
				esac
			done
			shift $((OPTIND - 1))
			[ $# = 1 ] && [ -n "$system" ] && [ -n "$nohome" ]
			echo "$1:x:$group:$group::$home:$shell" >>/etc/passwd
		ADD
		chmod 755 usr/sbin/addgroup usr/sbin/adduser
		printf '#!/sbin/openrc-run\ndepend() { provide net; }\nstart() { :; }\n' >etc/init.d/network
		chmod 755 sbin/apk etc/init.d/network
	)
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	for dir in daemons exclusive failed hotplugged inactive init.d options scheduled started starting stopping tmp wasinactive; do
		mkdir -p "$root/run/openrc/$dir"
	done
	touch "$root/run/openrc/softlevel"
}

# with_libraries copies a program, and the libraries that it loads, to where it is here.
with_libraries() {
	for path in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
		[ -e ".$path" ] || { mkdir -p ".$(dirname "$path")" && cp -L "$path" ".$path"; }
	done
}
