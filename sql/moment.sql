-- Where the server is now: the oldest transaction that has not ended (all with smaller ids have), the id that the next one gets,
-- the time (ms), and which server that is: after a failover of the database, or a restore, ids may come again.
-- psql -f moment.sql
SELECT pg_snapshot_xmin(s)::text AS horizon,
       pg_snapshot_xmax(s)::text AS next,
       (extract(epoch FROM clock_timestamp()) * 1000)::int8 AS ms,
       (SELECT system_identifier FROM pg_control_system())::text || '.' ||
       substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS server
  FROM pg_current_snapshot() AS s;
