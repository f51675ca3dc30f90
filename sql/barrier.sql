-- The end of the primary's WAL, and which server and database this is: system identifier, database, timeline, start.
-- A standby that has replayed up to there shows every transaction that had ended; replayed.sql compares.
-- psql -f barrier.sql
SELECT concat_ws(' ', pg_current_wal_insert_lsn(),
                 (SELECT system_identifier FROM pg_control_system()),
                 (SELECT oid FROM pg_database WHERE datname = current_database()),
                 substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8),
                 extract(epoch FROM pg_postmaster_start_time())) AS barrier;
