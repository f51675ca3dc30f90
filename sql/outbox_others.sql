-- A session that reads an outbox for another reader (outbox_claim.sql).
-- psql -v oid=16390 -v reader=4021 -f outbox_others.sql
SELECT l.pid
  FROM pg_locks l
 WHERE l.locktype = 'advisory' AND l.objsubid = 2
   AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
   AND l.classid = :'oid'::oid AND l.objid <> :'reader'::oid
 ORDER BY l.pid
 LIMIT 1;
