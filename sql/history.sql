-- The history that rows and transaction ids belong to: server, database, timeline. A standby that is promoted begins a
-- new timeline, without the transactions that it had not replayed. Only a primary tells its timeline at once. Of two
-- databases of a server one may be a copy of the other, with the same oids (CREATE DATABASE ... TEMPLATE).
-- psql -f history.sql
SELECT concat((SELECT system_identifier FROM pg_control_system()), '/',
              (SELECT oid FROM pg_database WHERE datname = current_database()), '/',
              CASE WHEN pg_is_in_recovery() THEN 'standby'
                   ELSE substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END) AS history;
