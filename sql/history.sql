-- The history that the server's rows and transaction ids belong to: a standby that is promoted begins a new timeline,
-- without the transactions that it had not replayed. Only a primary tells its timeline at once.
-- psql -f history.sql
SELECT concat((SELECT system_identifier FROM pg_control_system()), '/',
              CASE WHEN pg_is_in_recovery() THEN 'standby'
                   ELSE substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END) AS history;
