-- The noted prepared transactions that have not ended, the oldest first.
-- psql -v noted='{1234/gid}' -f prepared_waiting.sql
SELECT 0 AS pid,
       extract(epoch FROM clock_timestamp() - p.prepared)::float8 AS age_seconds,
       '' AS application,
       left(p.gid, 150) AS query
  FROM pg_prepared_xacts p
 WHERE p.database = current_database()
   AND p.transaction::text || '/' || p.gid = ANY (:'noted'::text[])
 ORDER BY p.prepared, p.gid;
