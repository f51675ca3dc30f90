-- Identifies the triggers of a table and its partitions, to notice that one was disabled or missing in between: each such
-- change makes or changes an entry.
-- psql -v oid=16384 -f triggers_state.sql
SELECT hashtextextended(coalesce(string_agg(concat_ws(':', t.oid, t.xmin, t.tgenabled), ' ' ORDER BY t.oid), ''), 0)::text
           AS state
  FROM pg_trigger t
 WHERE NOT t.tgisinternal
   AND (t.tgrelid = :'oid'::oid OR t.tgrelid IN (SELECT p.relid FROM pg_partition_tree(:'oid'::oid::regclass) AS p));
