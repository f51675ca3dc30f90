-- Facts about a server and this role: version, clock (milliseconds since 1970), which sessions it may see, open
-- transactions. Transactions of other roles are visible only with pg_read_all_stats.
-- psql -f server.sql
SELECT current_setting('server_version') AS version,
       pg_is_in_recovery() AS is_standby,
       quote_ident(current_user) AS role,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_statistics,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
       coalesce((SELECT extract(epoch FROM clock_timestamp() - min(a.xact_start))
                   FROM pg_stat_activity a
                  WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
                    AND a.backend_type = 'client backend'), 0)::bigint AS oldest_seconds,
       (SELECT count(*) FROM pg_prepared_xacts p WHERE p.database = current_database()) AS prepared,
       (SELECT count(*) FROM pg_replication_slots) AS slots,
       current_setting('max_replication_slots') AS slots_max;
