# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154
# What tests/bench/source measures with: figures and targets, the table, the coordinator and its jobs. To be sourced by
# it; needs deploy/servers.sh, build, dir, root, rows, filter.

# --- figures ---

calc() { awk "BEGIN { printf \"%.9g\", ($1) }"; }
put() { printf '%s\n' "$2" >>"$dir/samples/$1"; } # NAME VALUE
median() {                                        # NAME
  sort -g "$dir/samples/$1" | awk '{ v[NR] = $1 } END { m = int((NR + 1) / 2); print NR % 2 ? v[m] : (v[m] + v[m + 1]) / 2 }'
}
list() { tr '\n' ' ' <"$dir/samples/$1"; } # NAME
millions() { awk "BEGIN { printf \"%.2f M\", $1 / 1e6 }"; }

missed=0
target() { # WHAT VALUE UNIT most|least LIMIT
  local ok=OK operator='<='
  if [[ $4 == least ]]; then operator='>='; fi
  if [[ $(calc "$2 $operator $5") != 1 ]]; then
    ok=MISSED
    missed=$((missed + 1))
  fi
  printf '  %-6s  %-66s %9.2f %-5s at %s %.2f\n' "$ok" "$1" "$2" "$3" "$4" "$5"
}

ratio_target() { # NAME WHAT most|least LIMIT
  target "$2" "$(median "$1")" times "$3" "$4"
  printf '          rounds: %s\n' "$(list "$1")"
}

# Until the processors were idle for nine tenths of a second and another one.
wait_calm() {
  local until=$((SECONDS + calm)) before after calm_seconds=0
  while ((SECONDS < until && calm_seconds < 2)); do
    before=$(awk '/^cpu / { print $5 + $6 }' /proc/stat)
    sleep 1
    after=$(awk '/^cpu / { print $5 + $6 }' /proc/stat)
    if ((after - before >= 90 * $(nproc))); then calm_seconds=$((calm_seconds + 1)); else calm_seconds=0; fi
  done
}

# --- the table ---

sql() { psql -qAtX -v ON_ERROR_STOP=1 -d "$postgres_dsn" "$@"; }
sql_as_root() { psql -qAtX -v ON_ERROR_STOP=1 -d "postgresql://postgres@127.0.0.1:$postgres_port/app" "$@"; }

# Every second id: the others are for those who choose one themselves. One row in fifty is deleted, codes are in no
# order.
load_table() {
  sql -v table=short_link -f "$root/sql/short_link.sql"
  sql_as_root -c "ALTER SYSTEM SET fsync = off" -c "SELECT pg_reload_conf()" >/dev/null
  sql <<SQL
ALTER TABLE short_link DROP CONSTRAINT short_link_pkey, DROP CONSTRAINT short_link_code_key;
INSERT INTO short_link (id, code, url, created_at, deleted_at) OVERRIDING SYSTEM VALUE
SELECT 2 * i, lpad(to_hex((i * 2654435761) & 4294967295), 8, '0'), 'https://www.example.org/page/' || i,
       timestamptz '2020-01-01' + i * interval '1 second',
       CASE WHEN i % 50 = 0 THEN timestamptz '2020-01-02' + i * interval '1 second' END
  FROM generate_series(1, $rows::bigint) AS i;
SELECT setval(pg_get_serial_sequence('short_link', 'id'), 2 * $rows::bigint) > 0 \g /dev/null
SET maintenance_work_mem = '1GB';
ALTER TABLE short_link ADD PRIMARY KEY (id), ADD UNIQUE (code);
CREATE SEQUENCE written;
VACUUM (ANALYZE) short_link;
SQL
  "$pgbench" -i -q -s 10 "$postgres_dsn" >/dev/null 2>&1
  sql_as_root -c "CREATE EXTENSION pg_prewarm" -c "SELECT pg_prewarm('short_link') + pg_prewarm('short_link_pkey')" \
    -c "ALTER SYSTEM RESET fsync" -c "SELECT pg_reload_conf()" -c "CHECKPOINT" >/dev/null
  # The first change of a page after the checkpoint is dearer: let none of those that are compared have it.
  sql -c "UPDATE pgbench_accounts SET abalance = 0 WHERE aid % 20 = 0" -c "VACUUM pgbench_accounts"
}

raw() { # WAY [ROWS]; sets raw_rows, raw_seconds
  local line
  line=$("$build/tests/bench/source_raw" "$postgres_dsn" "$@")
  read -r raw_rows raw_seconds <<<"$line"
}

# --- the coordinator ---

tb() { # COMMAND...
  local answer
  answer=$(redis-cli -p "$port" "$@")
  if [[ $answer != OK ]]; then servers_fail "$*: $answer"; fi
}

status() { redis-cli -p "$port" TB.STATUS "$filter" | awk -v name="$1" 'NR % 2 && $0 == name { getline; print; exit }'; }
memory() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$daemon_pid/status"; } # KiB

log_lines() { wc -l <"$dir/daemon.log"; }
logged() { tail -n "+$((log_from + 1))" "$dir/daemon.log" | grep -m 1 -E "event=$1 .*${2:-}"; } # EVENT [PATTERN]
field() { sed -E "s/.* $1=([^ ]*).*/\1/"; }
moment() { date -u -d "$(sed -E 's/^ts=([^ ]*) .*/\1/')" +%s.%N; }

job_begin() { # COMMAND...
  log_from=$(log_lines)
  began=$(date +%s.%N)
  tb "$@"
}

job_wait() { # [EVENT] [PATTERN]
  local line
  line=$({ timeout 600 tail -n "+$((log_from + 1))" -s 0.1 --pid "$daemon_pid" -f -- "$dir/daemon.log" || true; } |
    grep -m 1 -E "event=(job_stopped |${1:-job_done} .*${2:-})") || servers_fail "the job did not end; see $dir/daemon.log"
  if [[ $line == *event=job_stopped* ]]; then servers_fail "the job failed: $line"; fi
}

configure() { tb CONFIG SET "$@"; }

# Sets rebuild_seconds (to the cutover), scan_rate, peak (KiB, over the fresh process).
rebuild() {
  echo 5 >"/proc/$daemon_pid/clear_refs"
  job_begin TB.REBUILD "$filter"
  job_wait
  rebuild_seconds=$(calc "$(logged view_changed phase=SWITCHED | moment) - $began")
  scan_rate=$(logged scan_done | field rows_per_second)
  peak=$(($(memory VmHWM) - fresh))
}

start_daemon() {
  local generation
  servers_redis redis
  servers_free_port
  port=$REPLY
  servers_free_port
  cat >"$dir/daemon.conf" <<CONF
[service]
listen = 127.0.0.1:$port
http = 127.0.0.1:$REPLY
threads = 2

[redis]
nodes = redis://127.0.0.1:$redis_port

[postgres]
dsn = $postgres_dsn

[rebuild]
spill_dir = $dir
CONF
  servers_daemon "$build" "$dir/daemon.conf" "$port" daemon
  fresh=$(memory VmRSS)
  cat >>"$dir/daemon.conf" <<CONF

[filter $filter]
capacity = $rows
error_rate = 0.001
table = short_link
id_column = id
key = code
where = deleted_at IS NULL
grace = 0s
follow = no
expand_at = 1
CONF
  log_from=0
  kill -HUP "$daemon_pid"
  job_wait
  generation=$(logged job_planned | field memory_bytes)
  memory_large=$((512 * 1024 * 1024))
  memory_small=$((generation / 4 > 1048576 ? generation / 4 : 1048576))
  printf 'a generation of %s bytes; build_memory %s, or %s\n' "$generation" "$memory_large" "$memory_small"
}
