-- What the session of an outbox needs for its whole life, as session.sql, but it may delete. Times are in milliseconds.
-- A table of this kind is empty or full from one moment to the next, so statistics mislead: the index on seq is right
-- for every statement, and in its order two who delete the same rows wait for each other instead of blocking each other.
-- A delete that the server forgets in a crash only brings its rows again. The session of a machine that is gone ends
-- within a minute: its lock (outbox_claim.sql) would keep others out.
-- psql -v statement_timeout=20000 -v lock_timeout=10000 -f outbox_session.sql
SELECT set_config('search_path', '', false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('default_transaction_read_only', 'off', false),
       set_config('row_security', 'off', false),
       set_config('synchronous_commit', 'off', false),
       set_config('statement_timeout', :'statement_timeout', false),
       set_config('lock_timeout', :'lock_timeout', false),
       set_config('idle_in_transaction_session_timeout', :'lock_timeout', false),
       set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('enable_sort', 'off', false),
       set_config('jit', 'off', false),
       set_config('max_parallel_workers_per_gather', '0', false),
       -- A database without an encoding of its own has bytes that need not be UTF-8: take them as they are.
       set_config('client_encoding',
                  CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END, false);
