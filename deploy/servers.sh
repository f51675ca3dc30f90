# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Private servers on free loopback ports, for the quickstart and the benchmarks. To be sourced by bash.
# Every server is started in a session of its own, so that Ctrl-C on the terminal reaches the script alone, which then
# ends them by pid.
#
#   servers_begin DIR        DIR is wiped; refuses while servers started from it run
#   servers_redis NAME [ARGUMENT...]   sets NAME_port and NAME_pid
#   servers_cluster MASTERS REPLICAS   a Redis Cluster, REPLICAS of each master; sets cluster_ports (the masters', in the order of their
#                            slots) and cluster_pids
#   servers_postgres [SETTING...]   sets postgres_port, postgres_pid, postgres_dsn; exports PGPASSFILE. SETTING: a line of its configuration
#   servers_standby NAME     a standby that streams from it; sets NAME_port, NAME_pid; the same passwords
#   servers_daemon BUILD CONF PORT [NAME]   sets NAME_pid (daemon_pid); waits until it answers PING
#   servers_environment BUILD CONF PORT HTTP_PORT   writes DIR/env: what a shell needs to talk to that daemon, for sourcing
#   servers_end              ends all that this script started, newest first
#   servers_stop DIR         ends what an earlier script left running there

servers_dir=
servers_pids=()

servers_fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# pid and start time say which process it is; a pid alone may have been given to another since.
servers_start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  stat=${stat##*) }
  local -a fields
  read -ra fields <<<"$stat"
  printf '%s' "${fields[19]}"
}

servers_alive() { # PID START_TIME
  [[ $(servers_start_time "$1") == "$2" ]] && [[ $(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) != Z ]]
}

servers_end_one() { # PID START_TIME
  local pid=$1 started=$2 tries=0
  servers_alive "$pid" "$started" || return 0 # it may be gone all the same when the signal comes
  # Postgres: SIGINT is its fast shutdown; SIGTERM would wait for its clients.
  if [[ $(cat "/proc/$pid/comm" 2>/dev/null) == postgres ]]; then kill -INT "$pid" 2>/dev/null || true; else kill -TERM "$pid" 2>/dev/null || true; fi
  while servers_alive "$pid" "$started" && ((tries++ < 100)); do sleep 0.1; done
  if servers_alive "$pid" "$started"; then kill -KILL "$pid" || true; fi
}

servers_stop() { # DIR
  local -a lines=()
  local i name pid started
  if [[ -r $1/pids ]]; then mapfile -t lines <"$1/pids"; fi
  for ((i = ${#lines[@]} - 1; i >= 0; i--)); do
    read -r name pid started <<<"${lines[i]}"
    printf 'ending %s (pid %s)\n' "$name" "$pid"
    servers_end_one "$pid" "$started"
  done
  servers_clear_elsewhere "$1"
}

# Postgres's data may have had to go to the temporary directory; they end with the server.
servers_clear_elsewhere() { # DIR
  local old
  [[ -r $1/elsewhere ]] || return 0
  old=$(<"$1/elsewhere")
  # Nothing but what mktemp made for us.
  if [[ ${old##*/} == twinbloom.???????? && -d $old/data ]]; then rm -rf -- "$old"; fi
  rm -f -- "$1/elsewhere"
}

# Prints the first that runs.
servers_running() { # DIR
  local name pid started
  [[ -r $1/pids ]] || return 1
  while read -r name pid started; do
    if servers_alive "$pid" "$started"; then
      printf '%s (pid %s)' "$name" "$pid"
      return 0
    fi
  done <"$1/pids"
  return 1
}

servers_begin() { # DIR
  if servers_running "$1" >/dev/null; then return 1; fi
  servers_clear_elsewhere "$1"
  rm -rf -- "$1"
  mkdir -p -- "$1"
  servers_dir=$(cd -- "$1" && pwd -P)
  : >"$servers_dir/pids"
}

servers_remember() { # NAME PID
  local started
  started=$(servers_start_time "$2") || return 1
  servers_pids+=("$2 $started")
  printf '%s %s %s\n' "$1" "$2" "$started" >>"$servers_dir/pids"
}

servers_end() {
  local i
  for ((i = ${#servers_pids[@]} - 1; i >= 0; i--)); do
    servers_end_one "${servers_pids[i]% *}" "${servers_pids[i]#* }"
  done
  servers_pids=()
  if [[ -n $servers_dir ]]; then servers_clear_elsewhere "$servers_dir"; fi
}

servers_free_port() {
  local port tries
  for ((tries = 0; tries < 200; tries++)); do
    port=$((20000 + RANDOM % 12000))
    # Nobody listens there, and it was not given out before.
    if [[ " ${servers_ports:-} " != *" $port "* ]] && ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      servers_ports="${servers_ports:-} $port"
      REPLY=$port
      return 0
    fi
  done
  servers_fail "no free port was found on 127.0.0.1"
}

# Wait until COMMAND succeeds while PID lives; at most 30 s.
servers_wait() { # WHAT PID LOG COMMAND...
  local what=$1 pid=$2 log=$3 tries
  shift 3
  for ((tries = 0; tries < 300; tries++)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    if ! kill -0 "$pid" 2>/dev/null; then break; fi
    sleep 0.1
  done
  tail -n 15 -- "$log" >&2
  servers_fail "$what does not come up; the end of $log is above"
}

servers_redis() { # NAME [ARGUMENT...]
  local name=$1 port dir=$servers_dir/$1
  shift
  servers_free_port
  port=$REPLY
  mkdir -p "$dir"
  setsid "${TWINBLOOM_REDIS_SERVER:-redis-server}" --port "$port" --bind 127.0.0.1 --dir "$dir" --save '' --appendonly no --maxmemory-policy noeviction \
    --daemonize no --logfile "$dir/log" "$@" </dev/null >/dev/null 2>&1 &
  printf -v "${name}_pid" '%s' $!
  printf -v "${name}_port" '%s' "$port"
  servers_remember "$name" $! || servers_fail "redis-server does not start; see $dir/log"
  servers_wait "redis-server" $! "$dir/log" redis-cli -p "$port" ping
}

servers_cluster_node() { # NAME: sets NAME_port, NAME_pid, NAME_bus
  local bus
  servers_free_port
  bus=$REPLY
  servers_redis "$1" --cluster-enabled yes --cluster-port "$bus" --cluster-node-timeout 5000
  printf -v "$1_bus" '%s' "$bus"
}

servers_cluster_is_whole() { # PORT NODES
  local info
  info=$(redis-cli -p "$1" cluster info) && [[ $info == *cluster_state:ok* && $info == *cluster_slots_ok:16384* && $info == *"cluster_known_nodes:$2"[!0-9]* ]]
}

servers_cluster_follow() { # PORT MASTER_PORT
  [[ $(redis-cli -p "$1" cluster replicate "$(redis-cli -p "$2" cluster myid)") == OK ]]
}

servers_cluster_follows() { # PORT
  redis-cli -p "$1" info replication | grep -q '^master_link_status:up'
}

servers_cluster() { # MASTERS REPLICAS
  local masters=$1 replicas=$2 i r name port_of pid_of bus_of
  cluster_ports=()
  cluster_pids=()
  for ((i = 0; i < masters * (1 + replicas); i++)); do
    name=cluster$i
    servers_cluster_node "$name"
    port_of=${name}_port bus_of=${name}_bus pid_of=${name}_pid
    if ((i < masters)); then
      cluster_ports+=("${!port_of}")
      cluster_pids+=("${!pid_of}")
      redis-cli -p "${!port_of}" cluster set-config-epoch $((i + 1)) >/dev/null
      redis-cli -p "${!port_of}" cluster addslotsrange $((16384 * i / masters)) $((16384 * (i + 1) / masters - 1)) >/dev/null
    fi
    if ((i > 0)); then redis-cli -p "${cluster_ports[0]}" cluster meet 127.0.0.1 "${!port_of}" "${!bus_of}" >/dev/null; fi
  done
  for ((i = 0; i < masters * (1 + replicas); i++)); do
    port_of=cluster${i}_port pid_of=cluster${i}_pid
    servers_wait "the cluster" "${!pid_of}" "$servers_dir/cluster$i/log" servers_cluster_is_whole "${!port_of}" $((masters * (1 + replicas)))
  done
  for ((r = masters; r < masters * (1 + replicas); r++)); do
    port_of=cluster${r}_port pid_of=cluster${r}_pid
    servers_wait "a replica" "${!pid_of}" "$servers_dir/cluster$r/log" servers_cluster_follow "${!port_of}" "${cluster_ports[r % masters]}"
    servers_wait "a replica" "${!pid_of}" "$servers_dir/cluster$r/log" servers_cluster_follows "${!port_of}"
  done
}

# Postgres refuses to run as root. Then it is the user postgres who runs it, and the data must be where that user can
# go.
servers_as_postgres() {
  if ((EUID == 0)); then
    setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"
  else
    "$@"
  fi
}

servers_postgres_directory() {
  local dir=$servers_dir/postgres
  mkdir -p "$dir"
  if ((EUID == 0)); then
    id postgres >/dev/null 2>&1 || servers_fail "there is no user postgres to run Postgres as; install postgresql, or run as another user than root"
    chown postgres: "$dir"
    if ! servers_as_postgres test -x "$dir"; then
      dir=$(mktemp -d "${TMPDIR:-/tmp}/twinbloom.XXXXXXXX")
      chown postgres: "$dir"
      printf '%s\n' "$dir" >"$servers_dir/elsewhere"
      printf '    the user postgres cannot reach %s; its data lie in %s\n' "$servers_dir" "$dir"
    fi
  fi
  chmod 700 "$dir"
  postgres_dir=$dir
}

servers_postgres_programs() {
  REPLY=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
  if [[ ! -x $REPLY/initdb ]]; then REPLY=$(dirname -- "$(command -v initdb)") || servers_fail "no initdb was found; install postgresql"; fi
}

servers_postgres_start() { # NAME DATA PORT: sets NAME_pid
  local log=$servers_dir/$1.log
  servers_postgres_programs
  if ((EUID == 0)); then
    (cd / && exec setsid setpriv --reuid=postgres --regid=postgres --init-groups -- "$REPLY/postgres" -D "$2") \
      </dev/null >"$log" 2>&1 &
  else
    (cd / && exec setsid "$REPLY/postgres" -D "$2") </dev/null >"$log" 2>&1 &
  fi
  printf -v "$1_pid" '%s' $!
  disown # no word of the shell about its end
  servers_remember "$1" $! || servers_fail "Postgres does not start; see $log"
  servers_wait "Postgres" $! "$log" pg_isready -h 127.0.0.1 -p "$3"
}

servers_standby() { # NAME
  local name=$1 secret port
  servers_postgres_programs
  secret=$(sed -n '1s/.*://p' "$PGPASSFILE")
  (cd / && PGPASSWORD=$secret servers_as_postgres "$REPLY/pg_basebackup" -R -c fast -h 127.0.0.1 -p "$postgres_port" -U postgres -D "$postgres_dir/$name") \
    >"$servers_dir/$name-backup.log" 2>&1 || { cat "$servers_dir/$name-backup.log" >&2; servers_fail "pg_basebackup failed"; }
  servers_free_port
  port=$REPLY
  printf '127.0.0.1:%s:*:*:%s\n' "$port" "$secret" >>"$PGPASSFILE"
  printf 'port = %s\n' "$port" >>"$postgres_dir/$name/postgresql.auto.conf"
  servers_postgres_start "$name" "$postgres_dir/$name" "$port"
  printf -v "${name}_port" '%s' "$port"
}

servers_postgres() { # [SETTING...]
  local secret bin
  servers_postgres_programs
  bin=$REPLY
  servers_postgres_directory
  # A password, so that other users of the machine have no superuser here.
  secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  (cd / && servers_as_postgres bash -c '"$1" -D "$2" -U postgres -A scram-sha-256 --pwfile=<(cat) -E UTF8 --locale=C.UTF-8 -N' \
    - "$bin/initdb" "$postgres_dir/data" <<<"$secret" >"$servers_dir/initdb.log" 2>&1) ||
    { cat "$servers_dir/initdb.log" >&2; servers_fail "initdb failed"; }
  # Only now: initdb takes a while, in which others look for ports, too.
  servers_free_port
  postgres_port=$REPLY
  (umask 077 && printf '127.0.0.1:%s:*:*:%s\n' "$postgres_port" "$secret" >"$servers_dir/pgpass")
  export PGPASSFILE=$servers_dir/pgpass
  cat >>"$postgres_dir/data/postgresql.auto.conf" <<EOF
listen_addresses = '127.0.0.1'
port = $postgres_port
unix_socket_directories = ''
max_connections = 100
shared_buffers = 256MB
max_wal_size = 4GB
$(printf '%s\n' "$@")
EOF
  servers_postgres_start postgres "$postgres_dir/data" "$postgres_port"
  postgres_dsn=postgresql://app@127.0.0.1:$postgres_port/app
  # The daemon and the traffic are an ordinary user. pg_read_all_stats: to name the query that an expansion waits for.
  psql -qX -v ON_ERROR_STOP=1 -d "postgresql://postgres@127.0.0.1:$postgres_port/postgres" <<EOF
SET log_statement = 'none';
CREATE ROLE app LOGIN PASSWORD '$secret' IN ROLE pg_read_all_stats;
CREATE DATABASE app OWNER app;
EOF
}

# N rows of short_link, and the statistics that the planner would have after a while.
servers_load() { # BUILD SQL N
  local build=$1 schema=$2 rows=$3
  psql -qX -v ON_ERROR_STOP=1 -v table=short_link -d "$postgres_dsn" -f "$schema"
  { apt-cache dumpavail 2>/dev/null || true; } | awk '/^Homepage: / && !seen[$2]++ { print $2 }' >"$servers_dir/urls"
  "$build/deploy/rows" "$rows" <"$servers_dir/urls" |
    psql -qX -v ON_ERROR_STOP=1 -d "$postgres_dsn" -c "\\copy short_link (code, url, created_at, deleted_at) FROM STDIN"
  psql -qX -v ON_ERROR_STOP=1 -d "$postgres_dsn" -c "VACUUM (ANALYZE) short_link"
}

servers_daemon() { # BUILD CONF PORT [NAME]
  local name=${4:-daemon} log=$servers_dir/${4:-daemon}.log
  setsid "$1/service/twinbloomd" -c "$2" </dev/null >"$log" 2>&1 &
  printf -v "${name}_pid" '%s' $!
  servers_remember "$name" $! || { tail -n 15 "$log" >&2; servers_fail "twinbloomd does not start; see $log"; }
  servers_wait "twinbloomd" $! "$log" redis-cli -e -p "$3" ping
}

servers_environment() { # BUILD CONF PORT HTTP_PORT
  {
    echo "# To be sourced: how to talk to what runs here."
    printf 'export PATH=%q:$PATH\n' "$1/service"
    printf 'export TWINBLOOM_URL=%q TWINBLOOM_PORT=%q TWINBLOOM_HTTP=%q\n' "redis://127.0.0.1:$3" "$3" "http://127.0.0.1:$4"
    printf 'export TWINBLOOM_CONF=%q TWINBLOOM_PID=%q\n' "$2" "$daemon_pid"
    printf 'export DATABASE_URL=%q PGPASSFILE=%q\n' "$postgres_dsn" "$PGPASSFILE"
    printf 'export REDIS_A=%q REDIS_B=%q\n' "$redis_a_port" "$redis_b_port"
  } >"$servers_dir/env"
}
