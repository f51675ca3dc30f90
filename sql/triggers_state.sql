-- Identifies the triggers of a table and its partitions, and their functions, to notice that one was disabled, missing or
-- replaced in between: each such change makes or changes an entry.
-- psql -v oid=16384 -f triggers_state.sql
SELECT hashtextextended(coalesce(string_agg(concat_ws(':', t.oid, t.xmin, t.tgenabled, p.xmin), ' ' ORDER BY t.oid), ''), 0)::text
           AS state
  FROM pg_trigger t
  JOIN pg_proc p ON p.oid = t.tgfoid
 WHERE NOT t.tgisinternal
   AND (t.tgrelid = :'oid'::oid OR t.tgrelid IN (SELECT r.relid FROM pg_partition_tree(:'oid'::oid::regclass) AS r));
