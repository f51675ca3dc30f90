/* SPDX-License-Identifier: MIT */
/* The table of keys: of the sections [service] (S), [redis] (R), [postgres] (P) and [rebuild] (E), of
 * [filter NAME] (F) and of [user NAME] (U). A row: name, type, member of the struct, default as it would
 * stand in the file, bounds of a number, flags, help.
 *
 * ROW_OF_SERVICE(section, row), ROW_OF_FILTER and ROW_OF_USER of whoever includes it say what becomes of a
 * row: in config.h a member, in config_keys.c the rest. */
/* clang-format off */
#define S(...) ROW_OF_SERVICE(CONFIG_SERVICE, __VA_ARGS__)
#define R(...) ROW_OF_SERVICE(CONFIG_REDIS, __VA_ARGS__)
#define P(...) ROW_OF_SERVICE(CONFIG_POSTGRES, __VA_ARGS__)
#define E(...) ROW_OF_SERVICE(CONFIG_EXPANSION, __VA_ARGS__)
#define F(...) ROW_OF_FILTER(CONFIG_FILTER, __VA_ARGS__)
#define U(...) ROW_OF_USER(CONFIG_USER, __VA_ARGS__)

S("listen", CONFIG_STRING, listen, "127.0.0.1:6479", 0, 0, 0,
  "Addresses for Redis clients, comma separated: host:port, :port for all addresses of IPv4 and IPv6, [v6]:port.")
S("listen_tls", CONFIG_STRING, listen_tls, "", 0, 0, 0,
  "Addresses for Redis clients that use TLS, written like listen. Needs tls_cert and tls_key.")
S("unix_socket", CONFIG_STRING, unix_socket, "", 0, 0, 0,
  "Path of a socket for Redis clients on this machine. Empty: none.")
S("unix_socket_mode", CONFIG_MODE, unix_socket_mode, "700", 0, 0777, 0,
  "Permission bits of that socket, in octal.")
S("insecure", CONFIG_BOOL, insecure, "no", 0, 0, RELOAD,
  "yes: the service may listen on other addresses than loopback without a password or users.")
S("tls_cert", CONFIG_STRING, tls_cert, "", 0, 0, FILE_ONLY,
  "PEM file with the service's certificate, followed by those of its issuers. Each SIGHUP reads it again.")
S("tls_key", CONFIG_STRING, tls_key, "", 0, 0, FILE_ONLY,
  "PEM file with the certificate's private key, not encrypted.")
S("tls_ca", CONFIG_STRING, tls_ca, "", 0, 0, FILE_ONLY,
  "PEM file with the authorities that client certificates must be signed by.")
S("tls_client_auth", CONFIG_CLIENT_AUTH, tls_client_auth, "no", 0, 0, RELOAD,
  "Whether clients show a certificate: no, optional or required.")
S("tls_client_user", CONFIG_BOOL, tls_client_user, "no", 0, 0, RELOAD,
  "yes: a client's certificate logs in the user that its common name (CN) names.")
S("http", CONFIG_STRING, http, "127.0.0.1:9479", 0, 0, 0,
  "Address for HTTP/JSON, the dashboard and probes, written like listen. Empty: HTTP is off.")
S("http_tls", CONFIG_BOOL, http_tls, "no", 0, 0, 0,
  "yes: HTTP uses TLS only. Needs tls_cert and tls_key.")
S("http_hosts", CONFIG_STRING, http_hosts, "", 0, 0, RELOAD,
  "More host names, comma separated, that browsers may use for this service where no login is needed.")
S("http_body_max", CONFIG_BYTES, http_body_max, "16MiB", 1024, 1024.0 * 1024 * 1024, 0,
  "Largest body of an HTTP request.")
S("http_timeout", CONFIG_DURATION, http_timeout_ms, "30s", 100, HOURS(1), 0,
  "Longest time that an HTTP connection may wait for a request, send it, wait for the answer, or read it.")
S("http_max_clients", CONFIG_COUNT, http_max_clients, "1000", 1, 1e6, 0,
  "HTTP connections at one time. Beyond that, the connection that has been idle longest is closed.")
S("http_metrics", CONFIG_HTTP_METRICS, http_metrics, "login", 0, 0, RELOAD,
  "Who may read /metrics where a login is needed: login (users that may read all filters), loopback (also "
  "connections from this machine, such as a proxy), open (everybody).")
S("threads", CONFIG_UNSIGNED, threads, "0", 0, 256, 0,
  "Threads that serve clients. 0: one for each processor that the process may use (affinity, control group), at "
  "most 8.")
S("password", CONFIG_STRING, password, "", 0, 0, CONFIG_SECRET | RELOAD,
  "Password of the default user for AUTH, as text or as a hash from twinbloom hash-password. Empty: no login is "
  "needed, unless there are users.")
S("password_file", CONFIG_STRING, password_file, "", 0, 0, FILE_ONLY,
  "File that holds this password instead. It is read at the start and by each SIGHUP. A line end at the end of the "
  "file is ignored.")
S("login_timeout", CONFIG_DURATION, login_timeout_ms, "60s", 100, HOURS(24), RELOAD,
  "How long a client may stay connected without a login where one is needed.")
S("timeout", CONFIG_DURATION, timeout_ms, "1s", 1, HOURS(1), RELOAD,
  "Deadline of a request. When it passes, the client gets an error.")
S("shutdown_delay", CONFIG_DURATION, shutdown_delay_ms, "0s", 0, HOURS(1), RELOAD,
  "How long clients are still served after SIGTERM, while /readyz answers 503 and jobs are handed over.")
S("state_file", CONFIG_STRING, state_file, "", 0, 0, 0,
  "File that tells, behind a clean stop of all coordinators, whether Redis came back with everything. All coordinators "
  "of the prefix must share it, so they run on one machine. Not for a cluster. Empty: none.")
S("check_interval", CONFIG_DURATION, check_interval_ms, "1s", 10, HOURS(1), RELOAD,
  "How often the controller checks thresholds and schedules.")
S("log_level", CONFIG_LOG_LEVEL, log_level, "info", 0, 0, RELOAD,
  "Lowest level that is logged: debug, info, warn or error.")
S("log_format", CONFIG_LOG_FORMAT, log_format, "logfmt", 0, 0, RELOAD,
  "Form of each line of the log: logfmt (key=value) or json.")
S("slow_after", CONFIG_DURATION, slow_ms, "500ms", 0, HOURS(24), RELOAD,
  "Requests that take this long or longer are logged with an id. 0: never.")
S("max_clients", CONFIG_COUNT, max_clients, "10000", 1, 1e6, RELOAD,
  "Client connections at one time.")
S("request_max", CONFIG_BYTES, request_max, "512MiB", 65536, 1ull << 40, RELOAD,
  "Longest request. A longer one closes the connection.")
S("batch_max", CONFIG_COUNT, batch_max, "1048576", 1, 1048576, RELOAD,
  "Most keys in one command.")
S("in_flight_max", CONFIG_COUNT, in_flight_max, "65536", 1, 1e9, RELOAD,
  "Keys that one thread works on at a time. At this number it starts no further requests.")
S("client_memory_max", CONFIG_MEMORY, client_memory_max, "auto", 4 << 20, 1ull << 40, RELOAD,
  "Memory for the requests and replies of all clients. Beyond that, the client that holds most is disconnected. auto: "
  "an eighth of what the process may use, at most 1GiB.")
S("output_timeout", CONFIG_DURATION, output_timeout_ms, "60s", 1000, HOURS(24), RELOAD,
  "How long a client may leave more than 1 MiB of replies unread before it is disconnected.")
S("idle_timeout", CONFIG_DURATION, idle_timeout_ms, "0s", 0, HOURS(24 * 365), RELOAD,
  "A client that has sent nothing for this long is disconnected. 0: never.")

R("nodes", CONFIG_STRING, nodes, CONFIG_NODES_DEFAULT, 0, 0, CONFIG_SECRET_PART,
  "Redis servers, comma separated: redis://[user:password@]host:port[/db], rediss:// for TLS, "
  "unix://[...@]/path[?db=N]. The first one is the metadata node.")
R("cluster", CONFIG_STRING, cluster, "", 0, 0, CONFIG_SECRET_PART,
  "Some nodes of a Redis Cluster, written like nodes, which is left out then. Empty: no cluster.")
R("sentinel", CONFIG_STRING, sentinel, "", 0, 0, CONFIG_SECRET_PART,
  "Redis Sentinels that know where the masters are, written like nodes, which is left out then. Empty: none.")
R("master", CONFIG_STRING, master, "", 0, 0, CONFIG_SECRET_PART,
  "The sentinels' names of the masters, comma separated; redis://user:password@NAME where a login is needed. The "
  "first one is the metadata node.")
R("password_file", CONFIG_STRING, redis_password_file, "", 0, 0, 0,
  "File that holds the password of every node whose URL has none: redis://user@host, or redis://host for the "
  "default user.")
R("prefix", CONFIG_STRING, prefix, "twinbloom", 0, 0, 0,
  "Prefix of all keys in Redis. Give each installation its own: then it takes no filter of another one for its own, "
  "where an address leads to the wrong Redis.")
R("timeout", CONFIG_DURATION, redis_timeout_ms, "1s", 1, HOURS(1), 0,
  "Deadline of a command to Redis.")
R("add_acks", CONFIG_UNSIGNED, add_acks, "0", 0, 5, RELOAD,
  "How many replicas must have an add before it is acknowledged, in every filter.")
R("add_fsync", CONFIG_BOOL, add_fsync, "no", 0, 0, RELOAD,
  "yes: an add is acknowledged when it is on the disk of the node, and of add_acks replicas. Needs Redis 7.2 "
  "(WAITAOF) and appendonly.")
R("tls_ca_file", CONFIG_STRING, redis_ca_file, "", 0, 0, FILE_ONLY,
  "PEM file with the authorities that the certificates of Redis servers must be signed by. Empty, with tls_ca_dir "
  "empty: the system's.")
R("tls_ca_dir", CONFIG_STRING, redis_ca_dir, "", 0, 0, FILE_ONLY,
  "Directory with such files, named by hash (openssl rehash).")
R("tls_cert_file", CONFIG_STRING, redis_cert_file, "", 0, 0, FILE_ONLY,
  "PEM file with the certificate that Twinbloom shows to Redis, followed by those of its issuers. Empty: none.")
R("tls_key_file", CONFIG_STRING, redis_key_file, "", 0, 0, FILE_ONLY,
  "PEM file with that certificate's private key, not encrypted.")
R("tls_server_name", CONFIG_STRING, redis_server_name, "", 0, 0, FILE_ONLY,
  "Name or address that the certificate of every node must have. Empty: the host in each node's URL.")
R("tls_verify", CONFIG_BOOL, redis_verify, "yes", 0, 0, FILE_ONLY,
  "no: the certificates of Redis are not checked. Whoever is on the network path can then read and change "
  "everything.")
R("shard_bytes", CONFIG_BYTES, shard_bytes, TEXT(SHARD_BYTES_TEXT), SHARD_BYTES_MIN, SHARD_BYTES_MAX, 0,
  "Largest shard, that is, the size of one Redis string. Layers of a filter keep the one that it was made with.")
R("resident_memory", CONFIG_MEMORY, resident_memory, "auto", 0, 1ull << 50, 0,
  "Memory for shards. What does not fit is read from Redis block by block. auto: half of what the process may use "
  "(machine, control group).")

P("dsn", CONFIG_STRING, dsn, "", 0, 0, CONFIG_SECRET_PART,
  "Connection string of the database that holds the tables; ~/.pgpass and PGPASSFILE work. sslmode=verify-full "
  "checks its certificate; without it the log warns, unless the database is on this machine. Empty: no database.")
P("read_dsn", CONFIG_STRING, read_dsn, "", 0, 0, CONFIG_SECRET_PART,
  "Connection string of a hot standby from which builds read rows. A build waits until the standby has replayed "
  "what it needs. Empty: the primary.")
P("password_file", CONFIG_STRING, postgres_password_file, "", 0, 0, 0,
  "File that holds the password for dsn and read_dsn where they have none. passfile=FILE in the dsn names a file "
  "in the form of ~/.pgpass.")
P("timeout", CONFIG_DURATION, postgres_timeout_ms, "10s", 1, HOURS(24), 0,
  "Deadline of connecting, and of one statement.")

E("build_memory", CONFIG_MEMORY, build_memory, "auto", 1024.0 * 1024, 1024.0 * 1024 * 1024 * 1024, RELOAD,
  "Memory that the coordinator uses for the bitmaps of a build. auto: a quarter of what the process may use, at most "
  "512MiB.")
E("spill_dir", CONFIG_STRING, spill_dir, "/var/tmp", 0, 0, FILE_ONLY,
  "Directory for the hashes of a build whose bitmaps do not fit into build_memory. The files have no names.")
E("spill_bytes", CONFIG_BYTES, spill_bytes, "64GiB", 1024.0 * 1024, 1024.0 * 1024 * 1024 * 1024 * 1024, RELOAD,
  "Most bytes of such hashes. A build writes what it has to Redis before there are more.")
E("readers", CONFIG_COUNT, readers, "0", 0, 64, RELOAD,
  "Connections that read a table at the same time. 0: one for each processor that the process may use, at most 8.")
E("page_time", CONFIG_DURATION, page_ms, "250ms", 1, HOURS(1), RELOAD,
  "How long the database should take for one page of rows. Twinbloom chooses the page's size by it.")
E("page_rows", CONFIG_COUNT, page_rows, "1000000", 1, 1e7, RELOAD,
  "Most rows of a page.")
E("lease", CONFIG_DURATION, lease_ms, "10s", 100, HOURS(1), RELOAD,
  "Lease of the mutex of a job. When it is not renewed for this long, another coordinator takes over.")
E("transaction_timeout", CONFIG_DURATION, settle_timeout_ms, "10m", 1, HOURS(168), RELOAD,
  "How long a build waits for older transactions to end.")
E("verify_sample", CONFIG_COUNT, verify_sample, "100000", 1, 1e12, RELOAD,
  "Keys of the source that are looked up in the new generation before the cutover.")
E("verify_max_age", CONFIG_DURATION, verify_stale_ms, "1h", 1000, HOURS(24 * 365), RELOAD,
  "How long a verification counts in the status. After that the status says stale.")
E("checkpoint_interval", CONFIG_DURATION, checkpoint_ms, "30s", 10, HOURS(1), RELOAD,
  "How often a scan writes its bitmaps to Redis and records its position, so that another coordinator can go on from "
  "there.")
E("slot_wal_max", CONFIG_BYTES, slot_wal_max, "10GiB", 1024.0 * 1024, 1024.0 * 1024 * 1024 * 1024 * 1024, RELOAD,
  "Most bytes of its log that the database may keep for a replication slot. Beyond that, the slot is dropped and "
  "rows are followed by ids.")
E("slot_grace", CONFIG_DURATION, slot_grace_ms, "1h", 1000, HOURS(24 * 365), RELOAD,
  "A replication slot of this installation that nobody reads and no configuration names is dropped after this "
  "time; after two minutes if it holds more than slot_wal_max.")
E("follow_interval", CONFIG_DURATION, follower_interval_ms, "500ms", 10, HOURS(1), RELOAD,
  "How often a follower with follow_by = ids looks for new rows.")
E("redis_p99_max", CONFIG_DURATION, redis_p99_max_ms, "20ms", 0, HOURS(1), RELOAD,
  "A build reads more slowly while more than 1 % of the requests wait longer than this for Redis. 0: never.")
E("replication_lag_max", CONFIG_DURATION, replication_lag_max_ms, "10s", 0, HOURS(24), RELOAD,
  "A build reads more slowly while a standby of the database is further behind than this. 0: never.")
E("yield_at", CONFIG_DOUBLE, yield_at, "0.8", 0, 1, RELOAD,
  "Half of a build's readers pause where others would end fewer transactions a second beside all readers than this "
  "share of what they end beside half. The build measures both, and measures again from time to time. 0: never.")
E("rows_per_second", CONFIG_COUNT, rows_per_second, "0", 0, 1e12, RELOAD,
  "Most rows that a build reads in a second. 0: no limit.")

F("capacity", CONFIG_COUNT, capacity, "0", 0, 1e12, RELOAD,
  "Keys that the first generation is made for at the least; with a table it is made for its rows times headroom if "
  "that is more. 0: with a table at least 10000; without one 100, as in BF.ADD.")
F("error_rate", CONFIG_DOUBLE, error_rate, "0.001", 0, 1, RELOAD | CONFIG_ABOVE_MIN | CONFIG_BELOW_MAX,
  "Highest false-positive rate.")
F("table", CONFIG_STRING, table, "", 0, 0, FILE_ONLY,
  "Tables that hold the keys, comma separated; * and ? stand for any letters. Empty: the filter has no source and "
  "grows by layers only.")
F("id_column", CONFIG_STRING, id_column, "", 0, 0, FILE_ONLY,
  "Unique, indexed columns by which a table is read page by page, comma separated. Empty: its primary key.")
F("key", CONFIG_STRING, key, "", 0, 0, FILE_ONLY,
  "Column that holds a row's key (text, bytea, uuid or integer), or an SQL expression. Needed with a table.")
F("where", CONFIG_STRING, where, "", 0, 0, FILE_ONLY,
  "SQL condition that a row must meet. Empty: every row. A long condition continues in lines that start with a "
  "blank.")
F("scan", CONFIG_SCAN, scan, "keyset", 0, 0, RELOAD,
  "Order in which a build reads: keyset (by id) or ctid (as rows lie on disk), which is faster (Postgres 14).")
F("sweep", CONFIG_BOOL, sweep, "yes", 0, 0, RELOAD,
  "yes: before and after the cutover a build looks for every row that was written since it started. no: it looks "
  "for new ids only, which is enough where ids grow and keys never change. Before the cutover scan = ctid looks "
  "for them all the same.")
F("follow_by", CONFIG_FOLLOW_BY, follow_by, "ids", 0, 0, RELOAD,
  "How rows that come without BF.ADD are found: ids (by growing ids), outbox (a table that triggers write) or "
  "logical (logical replication).")
F("follow", CONFIG_BOOL, follow, "yes", 0, 0, RELOAD,
  "yes: a follower adds the keys of rows that plain SQL writes, within a second or so. All followers "
  "share four connections to the database. no: such rows wait for the next rebuild.")
F("publication", CONFIG_STRING, publication, "", 0, 0, FILE_ONLY,
  "Publication of the tables, as sql/publication.sql creates it. For follow_by = logical.")
F("slot", CONFIG_STRING, slot, "", 0, 0, FILE_ONLY,
  "Replication slot for follow_by = logical. Twinbloom creates and drops it. Empty: twinbloom_ and the filter's "
  "name.")
F("outbox", CONFIG_STRING, outbox, "", 0, 0, FILE_ONLY,
  "Table into which triggers write which rows came, as sql/outbox.sql creates it. For follow_by = outbox.")
F("expand_at", CONFIG_DOUBLE, expand_at, "0.8", 0, 1, RELOAD | CONFIG_ABOVE_MIN,
  "Fill at which a rebuild into a larger generation starts.")
F("growth", CONFIG_DOUBLE, growth, "1.5", 1, 100, RELOAD,
  "Capacity of the generation that replaces a full one, as a multiple.")
F("headroom", CONFIG_DOUBLE, headroom, "1.3", 1, 100, RELOAD,
  "Capacity planned for each row of the source.")
F("expand_at_dead", CONFIG_DOUBLE, expand_at_dead, "0", 0, 1, RELOAD,
  "Share of dead keys, as estimated, at which a rebuild without them starts. 0: never.")
F("expand_at_bytes", CONFIG_BYTES, expand_at_bytes, "0", 0, 1024.0 * 1024 * 1024 * 1024 * 1024, RELOAD,
  "Size in memory at which a rebuild starts. 0: never.")
F("schedule", CONFIG_STRING, schedule, "", 0, 0, RELOAD,
  "When to rebuild in any case, in cron form, such as 30 3 * * *. Empty: never.")
F("window", CONFIG_STRING, window, "", 0, 0, RELOAD,
  "Local hours in which thresholds and the schedule may start a rebuild, such as 01:00-05:00, 22:00-02:00. Empty: "
  "any. Lost shards do not wait, nor does a filter that would outgrow its capacity before.")
F("expansion", CONFIG_UNSIGNED, expansion, "2", 0, 32768, RELOAD,
  "Without a source: how many times larger each further layer is. 0: the filter does not grow.")
F("grace", CONFIG_DURATION, grace_ms, "10m", 0, HOURS(168), RELOAD,
  "Grace time: how long after a cutover a rollback is possible. Both generations take memory and every add until "
  "then; twinbloom finish ends it.")
F("on_lost", CONFIG_ON_LOST, on_lost, "maybe", 0, 0, RELOAD,
  "Answer to a check of what is lost and not yet rebuilt: maybe (1) or error. It is never 0.")
F("add_acks", CONFIG_UNSIGNED, add_acks, "0", 0, 5, RELOAD,
  "As in [redis], for this filter. The larger of both counts.")
F("add_fsync", CONFIG_BOOL, add_fsync, "no", 0, 0, RELOAD,
  "As in [redis], for this filter. yes if either says so.")
F("nodes", CONFIG_STRING, nodes, "", 0, 0, RELOAD,
  "Nodes of [redis] that hold its shards from its next rebuild on: host:port, comma separated. Empty: all. Not for "
  "a cluster.")

U("password", CONFIG_STRING, password, "", 0, 0, CONFIG_SECRET | RELOAD,
  "Hash of the password, from twinbloom hash-password. Empty: this user cannot log in by password.")
U("token", CONFIG_STRING, token, "", 0, 0, CONFIG_SECRET | RELOAD,
  "Hashes of bearer tokens for HTTP, comma separated, from twinbloom hash-password --token.")
U("roles", CONFIG_ROLES, roles, "read", 0, 0, RELOAD,
  "read, write or admin. admin includes write, and write includes read.")
U("filters", CONFIG_STRING, filters, "*", 0, 0, RELOAD,
  "Patterns of filter names, comma separated: * ? [a-z]. A \\ makes the next character plain.")
U("filters_max", CONFIG_COUNT, filters_max, "0", 0, 1e9, RELOAD,
  "Most filters that match these patterns. At this number the user creates no more. 0: no limit.")
U("bytes_max", CONFIG_BYTES, bytes_max, "0", 0, 1ull << 50, RELOAD,
  "Memory in Redis that these filters may take in all. Beyond that, the user creates no filter, and none grows by the "
  "user's adds. 0: each filter that the user creates may take a quarter of the memory that Redis has left; no limit "
  "for the role admin.")
U("enabled", CONFIG_BOOL, enabled, "yes", 0, 0, RELOAD,
  "no: this user cannot log in.")

#undef S
#undef R
#undef P
#undef E
#undef F
#undef U
#undef ROW_OF_SERVICE
#undef ROW_OF_FILTER
#undef ROW_OF_USER
/* clang-format on */
