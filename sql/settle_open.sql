-- The transactions that are open now and could write in this database, as virtual id @ pid. Every transaction has a
-- virtual id from its beginning, with or without an xid. A backend whose database is unknown counts as one of this
-- database. An autovacuum worker writes no rows.
-- psql -f settle_open.sql
SELECT pg_is_in_recovery() AS is_standby,
       coalesce(array_agg(l.virtualxid || '@' || l.pid), '{}')::text AS noted
  FROM pg_locks l
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'virtualxid' AND l.virtualtransaction = l.virtualxid AND l.granted
   AND l.pid <> pg_backend_pid()
   AND (a.datid IS NULL OR a.datid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
   AND a.backend_type IS DISTINCT FROM 'autovacuum worker';
