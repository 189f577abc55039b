#!/usr/bin/env bash
# bench-postgresql.sh measures, on a PostgreSQL of its own that syncs every
# commit to disk: what the database does by itself (pgbench), the job queue River,
# the workflow engine Temporal, and our server: lease by lease with 1, 16 and 64 clients,
# with two replicas, and as a fleet (clients that create, workers that claim). Lease by
# lease and the fleet are measured on SQLite too. Everything runs on loopback and in a
# temporary folder; nothing stays behind.
# usage: [BENCH="pgbench river temporal run two fleet costs"] [SERVERS="bin/bloom"] [RUNS=1] [SAMPLES=200] scripts/bench-postgresql.sh [DURATION]
# SERVERS are the binaries whose servers are measured, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."

duration=${1:-10s}
runs=${RUNS:-1}
samples=${SAMPLES:-200} # of each latency
all="pgbench river temporal run two fleet"
[[ $duration =~ ^[1-9][0-9]*s$ ]] || { echo "bench-postgresql: DURATION is whole seconds, such as 10s" >&2; exit 2; }

# Where our tests look for PostgreSQL, too.
pg=${BLOOM_PG_BIN:-$(compgen -G '/usr/lib/postgresql/*/bin' | sort -rV | head -n 1 || true)}
pg=${pg:-$(dirname "$(command -v initdb || echo /none/initdb)")}
[[ -x $pg/postgres && -x $pg/pgbench ]] || { echo "bench-postgresql: no PostgreSQL found; run \`make tools\`" >&2; exit 1; }

work=$(mktemp -d "${TMPDIR:-/tmp}/bloom-bench.XXXXXX")
mkdir "$work/pg"
postgres='' # its process
started=()  # ours and the clients'

stop() {
	trap '' INT TERM HUP
	for pid in "${started[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
	for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
	[[ -z $postgres ]] || { kill -INT "$postgres" 2>/dev/null && wait "$postgres"; } || true
	rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# own starts a process in the background that ends with this script, even when
# that is killed; its id is in $!.
own() { setpriv --pdeathsig TERM "$@" & }

# run waits for a process so that a signal interrupts the waiting.
run() {
	own "$@"
	started+=("$!")
	wait "$!"
}

# PostgreSQL refuses to run as root. A change of user forgets the signal asked
# for before, so it is asked for here; SIGQUIT is its shutdown at once.
as=(setpriv --pdeathsig QUIT --)
if ((EUID == 0)); then
	user=postgres
	id -u "$user" >/dev/null 2>&1 || user=nobody
	chown "$user" "$work/pg"
	chmod 711 "$work"
	as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --pdeathsig QUIT --)
fi

wait_for() { # wait_for SECONDS COMMAND…
	local tries=$(($1 * 10))
	shift
	for ((; tries > 0; tries--)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	echo "bench-postgresql: gave up waiting for: $*" >&2
	tail -n 5 "$work"/*.log >&2 || true
	return 1
}

start_postgres() {
	"${as[@]}" "$pg/initdb" -D "$work/pg/data" -U bloom -A trust -E UTF8 --locale=C >"$work/initdb.log" 2>&1 ||
		{ cat "$work/initdb.log" >&2; return 1; }
	"${as[@]}" "$pg/postgres" -D "$work/pg/data" -h 127.0.0.1 -p "$db_port" -k "$work/pg" \
		-c fsync=on -c synchronous_commit=on -c full_page_writes=on >"$work/postgres.log" 2>&1 &
	postgres=$!
	wait_for 30 "$pg/pg_isready" -q -h 127.0.0.1 -p "$db_port" -U bloom -d postgres
	kill -0 "$postgres" # it, and no other one on that port
}

# database makes an empty one, after the last one's pages are written. Sets $url.
databases=0
database() {
	databases=$((databases + 1))
	url="postgres://bloom@127.0.0.1:$db_port/b$databases?sslmode=disable"
	sql postgres -c CHECKPOINT -c "CREATE DATABASE b$databases"
}
sql() { "$pg/psql" -X -q -h 127.0.0.1 -p "$db_port" -U bloom -d "$@"; }

binary=bin/bloom # whose server is measured

serve() { # serve PORT [STORE]
	local store=(--database-url "$url")
	[[ ${2:-} != sqlite ]] || store=()
	own "$binary" server --data-dir "$work/data-$databases-$1${2:-}" "${store[@]}" --listen "127.0.0.1:$1" \
		--log-level warn >"$work/server-$databases-$1.log" 2>&1
	server=$!
	started+=("$server")
	wait_for 30 bin/bloom stats --url "http://127.0.0.1:$1"
	kill -0 "$server"
}

end() { # end PID…
	kill -TERM "$@"
	for pid in "$@"; do wait "$pid" || true; done
}

# used is the processor time of processes, and of their children that have ended, in ms.
used() {
	local pid stats=()
	for pid; do stats+=("/proc/$pid/stat"); done
	cat "${stats[@]}" 2>/dev/null | awk -v tick="$(getconf CLK_TCK)" '{ sub(/^.*\) /, ""); t += $12 + $13 + $14 + $15 } END { print t * 1000 / tick }'
}
# shellcheck disable=SC2046 # one word for each process
used_by_both() { echo "$(used "$server") $(used "$postgres" $(pgrep -P "$postgres"))"; }

# measured runs a measurement, and says what of the processor each of what it counts took.
measured() {
	local before
	before=$(used_by_both)
	run "$@" >"$work/run.log"
	cat "$work/run.log"
	sed -nE 's/.*\(([0-9,]+) in .*/\1/p' "$work/run.log" | tr -d , | awk -v used="$before $(used_by_both)" '
		{ split(used, t, " "); printf "processor time of each: server %.3f ms, PostgreSQL %.3f ms\n", (t[3] - t[1]) / $1, (t[4] - t[2]) / $1 }'
}

title() { printf '\n== %s (load %s)\n\n' "$1" "$(cut -d ' ' -f 1 /proc/loadavg)"; }

bench_pgbench() {
	title "The limit: pgbench, 16 clients, one insert a transaction"
	database
	sql "b$databases" -c 'CREATE TABLE t (id bigserial PRIMARY KEY, x text)'
	echo "insert into t(x) values('abc');" >"$work/insert.sql"
	run "$pg/pgbench" -n -f "$work/insert.sql" -c 16 -j 2 -T "${duration%s}" -h 127.0.0.1 -p "$db_port" -U bloom "b$databases" >"$work/pgbench.log" 2>&1
	grep -E '^(tps|latency average)' "$work/pgbench.log"
}

bench_river() {
	title "River, 16 clients, in one process, without HTTP"
	database
	run "$work/river" --database-url "$url" --clients 16 --duration "$duration" --samples "$samples"
}

bench_temporal() {
	title "Temporal, 16 clients, all services, clients and workers in one process"
	run "$work/temporal" --host 127.0.0.1 --port "$db_port" --clients 16 --duration "$duration" --samples "$samples" 2>"$work/temporal.log" ||
		{ tail -n 5 "$work/temporal.log" >&2; return 1; }
	sql postgres -c 'DROP DATABASE temporal' -c 'DROP DATABASE temporal_visibility'
}

bench_run() {
	local store clients
	for store in sqlite postgresql; do
		for clients in 1 16 64; do
			title "$binary, lease by lease on $store: one replica, $clients clients"
			database
			serve "$port" "$store"
			measured bin/bloom bench run --url "http://127.0.0.1:$port" -c "$clients" -d "$duration" --lifecycles-only
			run bin/bloom bench run --url "http://127.0.0.1:$port" -n 1 --samples "$samples" >"$work/run.log"
			grep -vE '^(create|lease|heartbeat|complete|lifecycle) +[0-9]|/s with |^http|^$' "$work/run.log"
			awk '/VmRSS|VmHWM/ { printf "%s %.0f MiB\n", $1, $2 / 1024 }' "/proc/$server/status"
			end "$server"
		done
	done
}

bench_two() {
	title "bloom, two replicas, 8 clients on each at once"
	database
	serve "$port"
	local first=$server pids=()
	serve $((port + 1))
	for p in "$port" $((port + 1)); do
		own bin/bloom bench run --url "http://127.0.0.1:$p" -c 8 -d "$duration" --lifecycles-only >"$work/bench-$p.log" 2>&1
		pids+=("$!")
	done
	started+=("${pids[@]}")
	for pid in "${pids[@]}"; do wait "$pid"; done
	cat "$work/bench-$port.log" "$work/bench-$((port + 1)).log"
	awk '/ lifecycles\/s with / { sum += $1 } END { printf "%d lifecycles/s together\n", sum }' "$work"/bench-*.log
	end "$first" "$server"
}

bench_fleet() {
	local store shape creators=16 workers slots
	for store in sqlite postgresql; do
		for shape in "4 16" "64 1"; do
			read -r workers slots <<<"$shape"
			title "$binary, fleet on $store: $creators creators, $workers workers of $slots"
			database
			serve "$port" "$store"
			measured bin/bloom bench fleet --url "http://127.0.0.1:$port" --creators "$creators" --workers "$workers" --max-concurrency "$slots" -d "$duration" --samples "$samples"
			end "$server"
		done
	done
}

# What bench/scaling calculates with. On PostgreSQL a second server is only told of
# changes; with a bucket, outputs go to MinIO.
bench_costs() {
	local store pids others
	for store in sqlite postgresql bucket; do
		title "$binary, costs of single operations on $store"
		database
		others=()
		case $store in
		sqlite) serve "$port" sqlite ;;
		postgresql)
			serve $((port + 1))
			others=("$server" "$postgres")
			serve "$port"
			;;
		bucket)
			[[ -x .tools/bin/minio ]] || { echo "left out: scripts/build-minio.sh builds MinIO"; continue; }
			export MINIO_ROOT_USER=bloom-bench MINIO_ROOT_PASSWORD=bloom-bench-secret
			own .tools/bin/minio server --quiet --address "127.0.0.1:$((port + 2))" "$work/bucket" >"$work/minio.log" 2>&1
			others=("$!")
			started+=("$!")
			wait_for 30 curl -fs "http://127.0.0.1:$((port + 2))/minio/health/ready"
			export MINIO_ENDPOINT=127.0.0.1 MINIO_PORT=$((port + 2)) MINIO_USE_SSL=false MINIO_ACCESS_KEY=$MINIO_ROOT_USER MINIO_SECRET_KEY=$MINIO_ROOT_PASSWORD
			serve "$port" sqlite
			unset MINIO_ENDPOINT MINIO_PORT MINIO_USE_SSL MINIO_ACCESS_KEY MINIO_SECRET_KEY
			;;
		esac
		pids=("$server" "${others[@]}")
		run "$work/bench" costs --url "http://127.0.0.1:$port" -d "$duration" "${pids[@]/#/--pid=}"
		[[ $store == bucket ]] || run "$work/bench" polls --url "http://127.0.0.1:$port" -d "$duration" --polls 1000 "${pids[@]/#/--pid=}"
		awk '/VmRSS|VmHWM/ { printf "%s %.0f MiB\n", $1, $2 / 1024 }' "/proc/$server/status"
		end "$server" "${others[@]:0:1}"
	done
}

port=${BENCH_PORT:-5058}
db_port=${BENCH_DATABASE_PORT:-5068}
# Temporal takes minutes to build at first.
build() { (cd "$1" && CGO_ENABLED=0 go build -trimpath -o "$work/" .); }
for bench in ${BENCH:-$all}; do
	case $bench in
	river | temporal) build "bench/$bench" ;;
	costs) build bench ;;
	esac
done
start_postgres
echo "$("$pg/postgres" --version), fsync and synchronous_commit on, $(nproc) cores"
for ((i = 0; i < runs; i++)); do
	for bench in ${BENCH:-$all}; do
		case $bench in
		run | two | fleet | costs) for binary in ${SERVERS:-bin/bloom}; do "bench_$bench"; done ;;
		*) "bench_$bench" ;;
		esac
	done
done
