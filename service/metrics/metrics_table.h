/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_TABLE_H
#define SERVICE_METRICS_TABLE_H
/* The table of metrics: what /metrics writes and the reference says are made from it, and nothing that is not
 * in it can be written. To add one: a row in METRICS, and a sample of it where its figure is known
 * (metrics_filters.c, metrics_nodes.c, metrics_process.c, metrics_requests.c). */
#include <stddef.h>
#include <stdio.h>

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_INFO };

/* clang-format off */
/* id, type, name as Prometheus sees it, unit (the end of the name; "": none), labels, help. Counters end in
 * _total, infos in _info. Labels are names of the configuration, of commands, or words of a fixed list. */
#define METRICS(X) \
    X(BUILD, INFO, "twinbloom_build_info", "", "version,coordinator", "Version of this coordinator and its id, as in TB.COORDINATORS.") \
    X(UPTIME, GAUGE, "twinbloom_uptime_seconds", "seconds", "", "How long this coordinator has been running.") \
    X(LEAVING, GAUGE, "twinbloom_leaving", "", "", "1 from SIGTERM to the end.") \
    X(REQUESTS, COUNTER, "twinbloom_requests_total", "", "command,outcome", "Commands of Redis clients that were answered: ok, partial (some keys have an error), error, denied (no login, no right), timeout, unavailable (Redis could not be reached), cancelled (the client was gone before). command is unknown for what is no command.") \
    X(REQUEST_SECONDS, HISTOGRAM, "twinbloom_request_duration_seconds", "seconds", "command", "From the arrival of a command's last bytes until its reply is written.") \
    X(HTTP_REQUESTS, COUNTER, "twinbloom_http_requests_total", "", "method,route,code", "HTTP requests that were answered, by status. route is other for paths that are none.") \
    X(HTTP_REQUEST_SECONDS, HISTOGRAM, "twinbloom_http_request_duration_seconds", "seconds", "method,route", "From a whole HTTP request until its answer is written.") \
    X(SLOW_REQUESTS, COUNTER, "twinbloom_slow_requests_total", "", "", "Requests that took slow_after or longer.") \
    X(CLIENTS, GAUGE, "twinbloom_clients", "", "", "Connections of Redis clients.") \
    X(CLIENTS_MAX, GAUGE, "twinbloom_clients_max", "", "", "How many there may be (max_clients).") \
    X(HTTP_CONNECTIONS, GAUGE, "twinbloom_http_connections", "", "", "HTTP connections.") \
    X(HTTP_CONNECTIONS_TAKEN, COUNTER, "twinbloom_http_connections_accepted_total", "", "", "HTTP connections that were accepted.") \
    X(CONNECTIONS, COUNTER, "twinbloom_connections_total", "", "", "Connections of Redis clients that were accepted.") \
    X(CONNECTIONS_REJECTED, COUNTER, "twinbloom_connections_rejected_total", "", "", "Connections of Redis clients that were refused, as there were max_clients.") \
    X(LOG_LINES, COUNTER, "twinbloom_log_lines_total", "", "level", "Lines of the log.") \
    X(LOG_SUPPRESSED, COUNTER, "twinbloom_log_suppressed_total", "", "", "Lines that were left out of the log, as their place had written too many.") \
    X(FILTERS, GAUGE, "twinbloom_filters", "", "", "Filters in Redis and in the configuration.") \
    X(FILTERS_OMITTED, GAUGE, "twinbloom_filters_omitted", "", "", "Filters of which nothing is said: those beyond 1000, and those that could not be asked for yet.") \
    X(STATUS_TIMESTAMP, GAUGE, "twinbloom_filter_status_timestamp_seconds", "seconds", "", "When Redis last said which filters there are, and how they are; 0: not yet. Filters that five seconds did not suffice to ask for stay as they were said to be, and are asked for first the next time.") \
    X(FILTER_CHECKS, COUNTER, "twinbloom_filter_checks_total", "", "filter", "Keys that were checked and answered by this coordinator.") \
    X(FILTER_POSITIVES, COUNTER, "twinbloom_filter_positives_total", "", "filter", "Of these, answers that the key may have been added.") \
    X(FILTER_ADDS, COUNTER, "twinbloom_filter_adds_total", "", "filter", "Keys that were added and acknowledged by this coordinator.") \
    X(FILTER_ADDED, COUNTER, "twinbloom_filter_adds_new_total", "", "filter", "Of these, keys that were not there before.") \
    X(FILTER_KEYS_OMITTED, COUNTER, "twinbloom_filter_keys_omitted_total", "", "", "Keys that were checked or added by this coordinator in filters that are in none of these: each of its event loops counts for the first 1000 that it answers for, deleted ones among them, until it is restarted.") \
    X(FILTER_STATE, GAUGE, "twinbloom_filter_state", "", "filter,state", "1 for the state of the filter: serving, building, degraded or unreachable; 0 for the others.") \
    X(FILTER_PHASE, GAUGE, "twinbloom_filter_phase", "", "filter,phase", "1 for the phase of the filter's view, 0 for the others.") \
    X(FILTER_READY, GAUGE, "twinbloom_filter_ready", "", "filter", "1: built, and what it needs can be reached.") \
    X(FILTER_KEYS, GAUGE, "twinbloom_filter_keys", "", "filter", "Keys in the generation in use.") \
    X(FILTER_CAPACITY, GAUGE, "twinbloom_filter_capacity_keys", "keys", "filter", "Keys that it was planned for.") \
    X(FILTER_FILL, GAUGE, "twinbloom_filter_fill_ratio", "ratio", "filter", "Keys by capacity.") \
    X(FILTER_EXPAND_AT, GAUGE, "twinbloom_filter_expand_at_ratio", "ratio", "filter", "The fill at which an expansion starts (expand_at), of filters with a source.") \
    X(FILTER_ESTIMATED, GAUGE, "twinbloom_filter_estimated_error_ratio", "ratio", "filter", "Share of absent keys that are called present, estimated from the keys that are there.") \
    X(FILTER_PROMISED, GAUGE, "twinbloom_filter_promised_error_ratio", "ratio", "filter", "The share that the filter was made for (error_rate).") \
    X(FILTER_EPOCH, GAUGE, "twinbloom_filter_epoch", "", "filter", "Epoch of the view in Redis.") \
    X(FILTER_FENCED_EPOCH, GAUGE, "twinbloom_filter_fenced_epoch", "", "filter", "The epoch up to which all shards have been renamed.") \
    X(FILTER_GENERATION, GAUGE, "twinbloom_filter_generation", "", "filter", "Number of the generation in use.") \
    X(FILTER_LAYERS, GAUGE, "twinbloom_filter_layers", "", "filter", "Layers of the generation in use.") \
    X(FILTER_SHARDS, GAUGE, "twinbloom_filter_shards", "", "filter", "Shards of the generation in use.") \
    X(FILTER_BYTES, GAUGE, "twinbloom_filter_memory_bytes", "bytes", "filter", "What Redis allocates for all shards of the filter, by calculation.") \
    X(FILTER_LOST, GAUGE, "twinbloom_filter_lost_shards", "", "filter", "Shards of the generation in use that are lost, or are being made anew.") \
    X(FILTER_DEGRADED, GAUGE, "twinbloom_filter_degraded", "", "filter", "1: some keys cannot be called absent, until what was lost is healed.") \
    X(FILTER_DEGRADED_SINCE, GAUGE, "twinbloom_filter_degraded_timestamp_seconds", "seconds", "filter", "Since when this coordinator knows that.") \
    X(FILTER_HEALED, GAUGE, "twinbloom_filter_healed_timestamp_seconds", "seconds", "filter", "When it was last healed.") \
    X(FILTER_VERIFIED, GAUGE, "twinbloom_filter_verified_timestamp_seconds", "seconds", "filter", "When the generation in use was last verified against its source.") \
    X(FILTER_SOURCE_ROWS, GAUGE, "twinbloom_filter_source_rows", "", "filter", "Rows of its source, counted or estimated.") \
    X(FILTER_DEAD, GAUGE, "twinbloom_filter_dead_ratio", "ratio", "filter", "Share of the keys that have no row any more.") \
    X(FILTER_SOURCE_UP, GAUGE, "twinbloom_filter_source_up", "", "filter", "1: Postgres answered when the source was last looked at.") \
    X(FILTER_NEXT_SCHEDULE, GAUGE, "twinbloom_filter_next_schedule_timestamp_seconds", "seconds", "filter", "When its schedule starts the next expansion.") \
    X(FILTER_EXPECTED, GAUGE, "twinbloom_filter_expand_expected_timestamp_seconds", "seconds", "filter", "When its next expansion is expected to start.") \
    X(FILTER_NEXT_ATTEMPT, GAUGE, "twinbloom_filter_next_attempt_timestamp_seconds", "seconds", "filter", "When the next build or healing that the filter needs begins, where none runs as the last one failed or was aborted.") \
    X(FILTER_EXPIRES, GAUGE, "twinbloom_filter_expire_timestamp_seconds", "seconds", "filter", "When it is going to be deleted.") \
    X(TAIL_RUNNING, GAUGE, "twinbloom_tail_running", "", "filter", "1: the filter's table is followed, by whichever coordinator.") \
    X(TAIL_LAG, GAUGE, "twinbloom_tail_lag_seconds", "seconds", "filter", "How far the filter is behind its table.") \
    X(TAIL_ROWS, GAUGE, "twinbloom_tail_rows", "", "filter", "Rows that came by the tail since it began.") \
    X(JOB_STATE, GAUGE, "twinbloom_job_state", "", "filter,state", "1 for the state of the filter's last job: none, running, waiting, done, healed, failed, aborted or other; 0 for the others.") \
    X(JOB_STEP, GAUGE, "twinbloom_job_step", "", "filter,step", "1 for the step that a job is in. No sample where none runs.") \
    X(JOB_ROWS, GAUGE, "twinbloom_job_rows", "", "filter", "Rows that the job has read.") \
    X(JOB_ROWS_EXPECTED, GAUGE, "twinbloom_job_rows_expected", "", "filter", "Rows that it has to read, estimated.") \
    X(JOB_RATE, GAUGE, "twinbloom_job_rows_per_second", "", "filter", "Rows that it reads a second.") \
    X(JOB_ETA, GAUGE, "twinbloom_job_remaining_seconds", "seconds", "filter", "How long the scan will take yet.") \
    X(JOB_STARTED, GAUGE, "twinbloom_job_start_timestamp_seconds", "seconds", "filter", "When the job began.") \
    X(JOB_FINISHED, GAUGE, "twinbloom_job_finish_timestamp_seconds", "seconds", "filter", "When the last job ended.") \
    X(JOB_WAITING, GAUGE, "twinbloom_job_waiting", "", "filter", "1: the job waits for something that is not in its hand: a transaction, Postgres, an operator.") \
    X(JOB_PAUSED, GAUGE, "twinbloom_job_paused", "", "filter", "1: an operator has paused it.") \
    X(JOB_THROTTLED, GAUGE, "twinbloom_job_throttled", "", "filter,reason", "1: it reads more slowly than it could. reason: operator (rows_per_second, TB.THROTTLE), redis (its latency), replication (lag of standbys), transactions (others use the database), requests (it begins slowly beside them), other.") \
    X(JOB_STALL, GAUGE, "twinbloom_job_cutover_stall_seconds", "seconds", "filter", "How long the fence of the last cutover took, within which each shard stalls its callers for its own rename.") \
    X(JOB_REFILL_ROWS, GAUGE, "twinbloom_job_refill_rows", "", "filter", "Rows that were read to make lost shards anew.") \
    X(JOB_REFILL_EXPECTED, GAUGE, "twinbloom_job_refill_rows_expected", "", "filter", "Rows to be read for that.") \
    X(JOB_HEAL_ADDED, GAUGE, "twinbloom_job_heal_added_keys", "keys", "filter", "Keys that the last healing found missing, and added.") \
    X(JOBS, GAUGE, "twinbloom_jobs_running", "", "", "Jobs that this coordinator drives.") \
    X(LOOP_FILTERS, GAUGE, "twinbloom_loop_filters", "", "", "Filters of which this coordinator's event loops hold a view.") \
    X(LOOP_BEHIND, GAUGE, "twinbloom_loop_filters_behind", "", "", "Of these, where one of them holds an older view than Redis has.") \
    X(NODE_UP, GAUGE, "twinbloom_redis_up", "", "node", "1: every event loop has a connection to this node, or none was needed yet.") \
    X(NODE_CONNECTIONS, GAUGE, "twinbloom_redis_connections", "", "node", "Connections of this coordinator to the node.") \
    X(NODE_RECONNECTS, COUNTER, "twinbloom_redis_reconnects_total", "", "node", "Connections that took the place of lost ones.") \
    X(NODE_FAILURES, COUNTER, "twinbloom_redis_failures_total", "", "node", "Connections, and attempts to make one, that failed.") \
    X(NODE_SECONDS, HISTOGRAM, "twinbloom_redis_duration_seconds", "seconds", "node", "How long the node takes to answer requests' commands: one at a time is measured in each event loop.") \
    X(NODE_MEMORY, GAUGE, "twinbloom_redis_memory_used_bytes", "bytes", "node", "Memory in use there (used_memory), by whomever.") \
    X(NODE_MEMORY_MAX, GAUGE, "twinbloom_redis_memory_max_bytes", "bytes", "node", "Its maxmemory; 0: no bound.") \
    X(REPLICA_LAG, GAUGE, "twinbloom_redis_replica_lag_seconds", "seconds", "node", "How far a replica that is read from is behind its master.") \
    X(REPLICA_READS, COUNTER, "twinbloom_redis_replica_reads_total", "", "", "Reads that were sent to replicas.") \
    X(REPLICA_REASKED, COUNTER, "twinbloom_redis_replica_reads_reasked_total", "", "", "Of these, reads that were asked of masters again.") \
    X(PAGE_SECONDS, HISTOGRAM, "twinbloom_postgres_page_duration_seconds", "seconds", "", "How long a page of rows took to read.") \
    X(CPU, COUNTER, "process_cpu_seconds_total", "seconds", "", "Processor time of this process, user and system.") \
    X(RESIDENT, GAUGE, "process_resident_memory_bytes", "bytes", "", "Memory of this process; the filters lie in Redis.") \
    X(VIRTUAL, GAUGE, "process_virtual_memory_bytes", "bytes", "", "Address space of this process.") \
    X(FDS, GAUGE, "process_open_fds", "", "", "Open files of this process.") \
    X(FDS_MAX, GAUGE, "process_max_fds", "", "", "How many it may have.") \
    X(STARTED, GAUGE, "process_start_time_seconds", "seconds", "", "When it was started, since the Unix epoch.") \
    X(THREADS, GAUGE, "process_threads", "", "", "Threads of this process.")
/* clang-format on */

enum metric {
#define ID(id, type, name, unit, labels, help) METRIC_OF_##id,
    METRICS(ID)
#undef ID
        METRIC_COUNT
};

struct metric_row {
    enum metric_type type;
    const char *name, *unit, *labels, *help;
};

extern const struct metric_row metric_rows[METRIC_COUNT];

const char *metric_type_name(enum metric_type type);

/* The table as a page of Markdown. */
void metrics_describe(FILE *to);
#endif
