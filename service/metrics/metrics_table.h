/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_TABLE_H
#define SERVICE_METRICS_TABLE_H
/* The table of metrics: /metrics and the reference are generated from it, and only metrics in it can be
 * written. To add one: a row in METRICS, and a sample of it where its value is known (metrics_filters.c,
 * metrics_process.c, metrics_requests.c). */

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_INFO };

/* clang-format off */
/* id, type, name in Prometheus, unit (the end of the name; "": none), labels, the number of TB.STATUS that it is ("":
 * another value), help. Counters end in _total, infos in _info. Labels are configured names, names of commands, or
 * words of a fixed list. */
#define METRICS(X) \
    X(BUILD, INFO, "twinbloom_build_info", "", "version,coordinator", "", "Version and id of this coordinator, as in TB.COORDINATORS.") \
    X(UPTIME, GAUGE, "twinbloom_uptime_seconds", "seconds", "", "", "Time since this coordinator started.") \
    X(LEAVING, GAUGE, "twinbloom_shutting_down", "", "", "", "1 while this coordinator shuts down (from SIGTERM on).") \
    X(REQUESTS, COUNTER, "twinbloom_requests_total", "", "command,outcome", "", "Answered commands of Redis clients. outcome: ok, partial (some keys failed), error, denied (no login or no right), timeout, unavailable (Redis was unreachable), cancelled (the client disconnected first). command is unknown for a name that is no command.") \
    X(REQUEST_SECONDS, HISTOGRAM, "twinbloom_request_duration_seconds", "seconds", "command", "", "Time from the last byte of a command to the reply.") \
    X(HTTP_REQUESTS, COUNTER, "twinbloom_http_requests_total", "", "method,route,code", "", "Answered HTTP requests. code is the status. route is other for a path that does not exist.") \
    X(HTTP_REQUEST_SECONDS, HISTOGRAM, "twinbloom_http_request_duration_seconds", "seconds", "method,route", "", "Time from the last byte of an HTTP request to the answer.") \
    X(SLOW_REQUESTS, COUNTER, "twinbloom_slow_requests_total", "", "", "", "Requests that took longer than slow_after.") \
    X(CLIENTS, GAUGE, "twinbloom_clients", "", "", "", "Connected Redis clients.") \
    X(CLIENTS_MAX, GAUGE, "twinbloom_clients_max", "", "", "", "Largest number of Redis clients that is allowed (max_clients).") \
    X(HTTP_CONNECTIONS, GAUGE, "twinbloom_http_connections", "", "", "", "Open HTTP connections.") \
    X(HTTP_CONNECTIONS_TAKEN, COUNTER, "twinbloom_http_connections_accepted_total", "", "", "", "Accepted HTTP connections.") \
    X(CONNECTIONS, COUNTER, "twinbloom_connections_total", "", "", "", "Accepted connections of Redis clients.") \
    X(CONNECTIONS_REJECTED, COUNTER, "twinbloom_connections_rejected_total", "", "", "", "Rejected connections of Redis clients, because max_clients were connected.") \
    X(LOG_LINES, COUNTER, "twinbloom_log_lines_total", "", "level", "", "Written log lines.") \
    X(LOG_SUPPRESSED, COUNTER, "twinbloom_log_suppressed_total", "", "", "", "Log lines that were not written, because the same place in the program had written too many.") \
    X(FILTERS, GAUGE, "twinbloom_filters", "", "", "", "Filters in Redis or in the configuration.") \
    X(FILTERS_OMITTED, GAUGE, "twinbloom_filters_omitted", "", "", "", "Filters that the metrics leave out: all above 1000, and those that were not read yet.") \
    X(STATUS_TIMESTAMP, GAUGE, "twinbloom_filter_status_timestamp_seconds", "seconds", "", "", "When the state of the filters was last read from Redis; 0: never. A filter that could not be read within five seconds keeps its previous figures and is read first the next time.") \
    X(FILTER_CHECKS, COUNTER, "twinbloom_filter_checks_total", "", "filter", "", "Keys that this coordinator checked.") \
    X(FILTER_POSITIVES, COUNTER, "twinbloom_filter_positives_total", "", "filter", "", "Checked keys that were answered 'maybe present'.") \
    X(FILTER_ADDS, COUNTER, "twinbloom_filter_adds_total", "", "filter", "", "Keys whose adds this coordinator acknowledged.") \
    X(FILTER_ADDED, COUNTER, "twinbloom_filter_adds_new_total", "", "filter", "", "Added keys that were new.") \
    X(FILTER_KEYS_OMITTED, COUNTER, "twinbloom_filter_keys_omitted_total", "", "", "", "Checked or added keys of filters that the counters by filter leave out. Each event loop counts for the first 1000 filters that it answers for, until the coordinator restarts; deleted filters are among them.") \
    X(FILTER_STATE, GAUGE, "twinbloom_filter_state", "", "filter,state", "", "1 for the state of the filter (serving, building, not built, degraded or unreachable), 0 for the others.") \
    X(FILTER_PHASE, GAUGE, "twinbloom_filter_phase", "", "filter,phase", "", "1 for the phase of the view, 0 for the others.") \
    X(FILTER_READY, GAUGE, "twinbloom_filter_ready", "", "filter", "", "1: the filter is built, and Redis is reachable.") \
    X(FILTER_KEYS, GAUGE, "twinbloom_filter_keys", "", "filter", "keys", "Keys in the generation in use.") \
    X(FILTER_CAPACITY, GAUGE, "twinbloom_filter_capacity_keys", "keys", "filter", "capacity", "Number of keys that the generation in use is made for.") \
    X(FILTER_FILL, GAUGE, "twinbloom_filter_fill_ratio", "ratio", "filter", "fill_ratio", "Fill: keys divided by capacity.") \
    X(FILTER_EXPAND_AT, GAUGE, "twinbloom_filter_expand_at_ratio", "ratio", "filter", "expand_at_ratio", "Fill at which a rebuild starts (expand_at). Filters without a source have no sample.") \
    X(FILTER_ESTIMATED, GAUGE, "twinbloom_filter_estimated_error_ratio", "ratio", "filter", "expected_error_rate", "Expected false-positive rate, calculated from the number of keys.") \
    X(FILTER_PROMISED, GAUGE, "twinbloom_filter_promised_error_ratio", "ratio", "filter", "error_rate", "Highest false-positive rate that is allowed (error_rate).") \
    X(FILTER_EPOCH, GAUGE, "twinbloom_filter_epoch", "", "filter", "epoch", "Epoch of the view in Redis.") \
    X(FILTER_GENERATION, GAUGE, "twinbloom_filter_generation", "", "filter", "generation", "Number of the generation in use.") \
    X(FILTER_LAYERS, GAUGE, "twinbloom_filter_layers", "", "filter", "layers", "Layers of the generation in use.") \
    X(FILTER_SHARDS, GAUGE, "twinbloom_filter_shards", "", "filter", "shards", "Shards of the generation in use.") \
    X(FILTER_BYTES, GAUGE, "twinbloom_filter_memory_bytes", "bytes", "filter", "memory_bytes", "Memory that all shards of the filter take in Redis, calculated.") \
    X(FILTER_LOST, GAUGE, "twinbloom_filter_lost_shards", "", "filter", "lost_shards", "Shards of the generation in use that are missing in Redis.") \
    X(FILTER_DEGRADED, GAUGE, "twinbloom_filter_degraded", "", "filter", "", "1: data were lost, or may have been; affected keys are answered 'maybe present' until the filter is healed.") \
    X(FILTER_DEGRADED_SINCE, GAUGE, "twinbloom_filter_degraded_timestamp_seconds", "seconds", "filter", "degraded_at", "When this coordinator found that the filter is degraded.") \
    X(FILTER_VERIFIED, GAUGE, "twinbloom_filter_verified_timestamp_seconds", "seconds", "filter", "verified_at", "When the generation in use was last verified against the source.") \
    X(FILTER_SOURCE_ROWS, GAUGE, "twinbloom_filter_source_rows", "", "filter", "source_rows", "Rows of the source, counted or estimated.") \
    X(FILTER_DEAD, GAUGE, "twinbloom_filter_dead_ratio", "ratio", "filter", "dead_ratio", "Dead keys divided by keys: the share whose rows were deleted.") \
    X(FILTER_SOURCE_UP, GAUGE, "twinbloom_filter_source_up", "", "filter", "", "1: Postgres answered at the last attempt.") \
    X(FILTER_NEXT_SCHEDULE, GAUGE, "twinbloom_filter_next_schedule_timestamp_seconds", "seconds", "filter", "schedule_next_at", "When the schedule starts the next rebuild.") \
    X(FILTER_EXPECTED, GAUGE, "twinbloom_filter_rebuild_expected_timestamp_seconds", "seconds", "filter", "rebuild_expected_at", "When the next rebuild is expected to start.") \
    X(FILTER_NEXT_ATTEMPT, GAUGE, "twinbloom_filter_next_attempt_timestamp_seconds", "seconds", "filter", "next_attempt_at", "When the next build starts, after the last one failed or was aborted.") \
    X(FILTER_EXPIRES, GAUGE, "twinbloom_filter_expire_timestamp_seconds", "seconds", "filter", "expires_at", "When the filter expires and is deleted.") \
    X(FILTER_LOG, GAUGE, "twinbloom_filter_log_state", "", "filter,state", "", "1 for how this coordinator has the filter (opening, open, closed or unused), 0 for the others.") \
    X(FILTER_RESIDENT, GAUGE, "twinbloom_filter_resident_shards", "", "filter", "resident_shards", "Shards that are wholly in the memory of this coordinator.") \
    X(FILTER_LOADING, GAUGE, "twinbloom_filter_loading_shards", "", "filter", "loading_shards", "Shards that are being loaded into the memory of this coordinator.") \
    X(FILTER_DIRTY, GAUGE, "twinbloom_filter_dirty_shards", "", "filter", "dirty_shards", "Resident shards that have bits which Redis lacks.") \
    X(FILTER_RESIDENT_BYTES, GAUGE, "twinbloom_filter_resident_bytes", "bytes", "filter", "resident_bytes", "Bytes of resident shards.") \
    X(FILTER_LOADING_BYTES, GAUGE, "twinbloom_filter_loading_bytes", "bytes", "filter", "loading_bytes", "Bytes of loading shards.") \
    X(FILTER_DIRTY_BYTES, GAUGE, "twinbloom_filter_dirty_bytes", "bytes", "filter", "dirty_bytes", "Bytes of dirty shards that Redis lacks.") \
    X(FILTER_OVERHEAD, GAUGE, "twinbloom_filter_resident_overhead_bytes", "bytes", "filter", "resident_overhead_bytes", "Memory of this coordinator beside the shards: what is known of shards that are not resident, and tables.") \
    X(FILTER_LANES, GAUGE, "twinbloom_filter_lanes", "", "filter", "lanes", "Lanes of the log.") \
    X(FILTER_LANE_BYTES, GAUGE, "twinbloom_filter_lane_bytes", "bytes", "filter", "lane_bytes", "Memory that the lanes take in Redis, as this coordinator measured it last. At 64 MiB of a lane adds are refused.") \
    X(FILTER_WRITERS, GAUGE, "twinbloom_filter_writers", "", "filter", "writers", "Coordinators that are registered to append to the log.") \
    X(FILTER_FOLD_LAG, GAUGE, "twinbloom_filter_fold_lag_entries", "", "filter", "fold_lag_entries", "Entries that this coordinator has read and that are not folded into shards.") \
    X(FILTER_FOLD_LAG_BYTES, GAUGE, "twinbloom_filter_fold_lag_bytes", "bytes", "filter", "fold_lag_bytes", "Bytes of the entries that are not folded into shards.") \
    X(FILTER_FOLDED, GAUGE, "twinbloom_filter_folded_timestamp_seconds", "seconds", "filter", "folded_at", "When the log was last folded into shards.") \
    X(TAIL_RUNNING, GAUGE, "twinbloom_follow_running", "", "filter", "", "1: some coordinator runs the follower of the filter.") \
    X(TAIL_LAG, GAUGE, "twinbloom_follow_lag_seconds", "seconds", "filter", "follow_lag_ms", "How far the follower is behind the table.") \
    X(TAIL_ROWS, GAUGE, "twinbloom_follow_rows", "", "filter", "follow_rows", "Rows that the follower has read since it started.") \
    X(JOB_STATE, GAUGE, "twinbloom_job_state", "", "filter,state", "", "1 for the state of the last job (none, running, waiting, done, healed, failed, aborted or other), 0 for the others.") \
    X(JOB_STEP, GAUGE, "twinbloom_job_step", "", "filter,step", "", "1 for the step of the running job. Without a running job there is no sample.") \
    X(JOB_ROWS, GAUGE, "twinbloom_job_rows", "", "filter", "job_rows", "Rows that the job has read.") \
    X(JOB_ROWS_EXPECTED, GAUGE, "twinbloom_job_rows_expected", "", "filter", "job_rows_total", "Rows that the job has to read, estimated.") \
    X(JOB_RATE, GAUGE, "twinbloom_job_rows_per_second", "", "filter", "job_rows_per_second", "Rows that the job reads each second.") \
    X(JOB_ETA, GAUGE, "twinbloom_job_remaining_seconds", "seconds", "filter", "job_eta_seconds", "Estimated time until all rows are read.") \
    X(JOB_STARTED, GAUGE, "twinbloom_job_start_timestamp_seconds", "seconds", "filter", "job_started_at", "When the job started.") \
    X(JOB_FINISHED, GAUGE, "twinbloom_job_finish_timestamp_seconds", "seconds", "filter", "job_finished_at", "When the last job ended.") \
    X(JOB_WAITING, GAUGE, "twinbloom_job_waiting", "", "filter", "", "1: the job waits for a transaction, Postgres or an operator.") \
    X(JOB_PAUSED, GAUGE, "twinbloom_job_paused", "", "filter", "", "1: an operator has paused the job.") \
    X(JOB_THROTTLED, GAUGE, "twinbloom_job_throttled", "", "filter,reason", "", "1: the job reads more slowly than it could. reason: operator (rows_per_second, TB.THROTTLE), redis (its latency), replication (lag of standbys), transactions (load of the database), requests (half of the readers pause while clients are active), other.") \
    X(JOB_STALL, GAUGE, "twinbloom_job_cutover_stall_seconds", "seconds", "filter", "job_cutover_us", "Duration of the last cutover.") \
    X(JOBS, GAUGE, "twinbloom_jobs_running", "", "", "", "Jobs that this coordinator runs.") \
    X(LOOP_FILTERS, GAUGE, "twinbloom_loop_filters", "", "", "", "Filters whose views this coordinator holds.") \
    X(LOOP_BEHIND, GAUGE, "twinbloom_loop_filters_behind", "", "", "", "Filters of which this coordinator holds an older view than Redis.") \
    X(NODE_UP, GAUGE, "twinbloom_redis_up", "", "node", "", "1: every event loop has a connection to the node, or has not needed one yet.") \
    X(NODE_CONNECTIONS, GAUGE, "twinbloom_redis_connections", "", "node", "", "Connections of this coordinator to the node.") \
    X(NODE_RECONNECTS, COUNTER, "twinbloom_redis_reconnects_total", "", "node", "", "Connections that replaced lost ones.") \
    X(NODE_FAILURES, COUNTER, "twinbloom_redis_failures_total", "", "node", "", "Failed connections and connection attempts.") \
    X(NODE_SECONDS, HISTOGRAM, "twinbloom_redis_duration_seconds", "seconds", "node", "", "Time that the node takes to answer commands of requests. Each event loop measures one command at a time.") \
    X(NODE_MEMORY, GAUGE, "twinbloom_redis_memory_used_bytes", "bytes", "node", "", "Memory in use on the node, by Twinbloom and others (used_memory of Redis).") \
    X(NODE_MEMORY_MAX, GAUGE, "twinbloom_redis_memory_max_bytes", "bytes", "node", "", "maxmemory of the node; 0: no limit.") \
    X(PAGE_SECONDS, HISTOGRAM, "twinbloom_postgres_page_duration_seconds", "seconds", "", "", "Time to read one page of rows.") \
    X(CPU, COUNTER, "process_cpu_seconds_total", "seconds", "", "", "User and system CPU time of this process.") \
    X(RESIDENT, GAUGE, "process_resident_memory_bytes", "bytes", "", "", "Resident memory of this process, with the shards that it keeps of filters that are logs.") \
    X(VIRTUAL, GAUGE, "process_virtual_memory_bytes", "bytes", "", "", "Virtual memory of this process.") \
    X(FDS, GAUGE, "process_open_fds", "", "", "", "Open file descriptors of this process.") \
    X(FDS_MAX, GAUGE, "process_max_fds", "", "", "", "Largest number of open file descriptors that is allowed.") \
    X(STARTED, GAUGE, "process_start_time_seconds", "seconds", "", "", "When this process started.") \
    X(THREADS, GAUGE, "process_threads", "", "", "", "Threads of this process.")
/* clang-format on */

enum metric {
#define ID(id, ...) METRIC_OF_##id,
    METRICS(ID)
#undef ID
        METRIC_COUNT
};

struct metric_row {
    enum metric_type type;
    const char *name, *unit, *labels, *field, *help;
};

extern const struct metric_row metric_rows[METRIC_COUNT];

const char *metric_type_name(enum metric_type type);
#endif
