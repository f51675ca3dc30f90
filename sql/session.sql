-- What the session needs for its whole life. Times are in milliseconds.
-- The empty search_path keeps objects of others out of our statements; ids have one text form whatever the role's
-- settings are. Without sort a keyset page can only be read in the order of an index: a generic plan, or a table whose
-- order on disk is unlike that of its ids, must not turn each page into a sort of the whole table. A session that waits
-- for others, such as readers of the table, may be idle for hours, and a
-- sweep is one transaction (the two settings came with Postgres 14 and 17).
-- psql -v statement_timeout=600000 -v lock_timeout=10000 -f session.sql
SELECT set_config('search_path', '', false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('default_transaction_read_only', 'on', false),
       set_config('row_security', 'off', false),
       set_config('statement_timeout', :'statement_timeout', false),
       set_config('lock_timeout', :'lock_timeout', false),
       set_config('idle_in_transaction_session_timeout', :'lock_timeout', false),
       (SELECT string_agg(set_config(s.name, '0', false), '') FROM pg_settings s
        WHERE s.name IN ('idle_session_timeout', 'transaction_timeout')),
       set_config('enable_sort', 'off', false),
       set_config('standard_conforming_strings', 'on', false),
       set_config('jit', 'off', false),
       set_config('max_parallel_workers_per_gather', '0', false),
       set_config('datestyle', 'ISO, YMD', false),
       set_config('intervalstyle', 'postgres', false),
       set_config('timezone', 'UTC', false),
       -- A stream is told by a warning that rows were left out.
       set_config('client_min_messages', 'warning', false),
       set_config('bytea_output', 'hex', false),
       set_config('extra_float_digits', '1', false),
       -- A database without an encoding of its own has bytes that need not be UTF-8: take them as they are.
       set_config('client_encoding',
                  CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END, false);
