-- The noted transactions that are still open, the oldest first. What this role may not see is empty or NULL. One with
-- the lock of snapshot_export.sql writes nothing.
-- psql -v noted='{3/17@1234}' -f settle_waiting.sql
SELECT l.pid,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS age_seconds,
       coalesce(a.application_name, '') AS application,
       coalesce(left(regexp_replace(a.query, '\s+', ' ', 'g'), 150), '') AS query
  FROM pg_locks l
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'virtualxid' AND l.virtualtransaction = l.virtualxid AND l.granted
   AND l.virtualxid || '@' || l.pid = ANY (:'noted'::text[])
   AND NOT EXISTS (SELECT FROM pg_locks r
                    WHERE r.pid = l.pid AND r.locktype = 'advisory' AND r.classid = 1952607074 AND r.objid = 1
                      AND r.objsubid = 2 AND r.granted)
 ORDER BY a.xact_start NULLS LAST, l.pid;
