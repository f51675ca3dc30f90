-- Whether a table writes all its rows to an outbox: both triggers exist, are enabled, and are of the kind that the
-- table needs (a partition, or a table with partitions, needs row triggers). The triggers of a partition have the
-- functions of its parent's, but no dependency of their own.
-- psql -v oid=16384 -v outbox=16390 -f outbox_triggers.sql
SELECT count(*) FILTER (WHERE t.tgtype & 4 > 0 AND (t.tgtype & 1 > 0 OR (c.relkind = 'r' AND NOT c.relispartition))) > 0
           AND count(*) FILTER (WHERE t.tgtype & 16 > 0) > 0 AS is_complete,
       format('%I.%I', n.nspname, c.relname) AS name
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgenabled IN ('O', 'A') AND t.tgfoid IN (
       SELECT u.tgfoid
         FROM pg_trigger u
         JOIN pg_depend d ON d.classid = 'pg_trigger'::regclass AND d.objid = u.oid AND d.refclassid = 'pg_type'::regclass
         JOIN pg_class o ON o.reltype = d.refobjid
        WHERE o.oid = :'outbox'::oid)
 WHERE c.oid = :'oid'::oid
 GROUP BY n.nspname, c.relname;
