-- What the planner knows about a table. rows: it knows how many there are; false if a part of the table that has pages
-- was never analysed (reltuples is -1 then, 0 before Postgres 14). columns: it knows their contents; VACUUM and CREATE
-- INDEX only count rows, and without statistics of columns the share that meets a condition is a constant guess.
-- changed: rows written since, which the statistics do not cover; 0 after a crash of the server.
-- psql -v oid=16384 -f rows_known.sql
WITH part AS (
    SELECT c.oid, c.reltuples, n.nspname, c.relname
      FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid IN (SELECT :'oid'::oid
                      UNION ALL
                     SELECT p.relid FROM pg_partition_tree(:'oid'::oid::regclass) AS p WHERE p.isleaf)
       AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0)
SELECT coalesce(bool_and(p.reltuples > 0), true) AS rows,
       coalesce(bool_and(pg_stat_get_last_analyze_time(p.oid) IS NOT NULL
                         OR pg_stat_get_last_autoanalyze_time(p.oid) IS NOT NULL
                         OR EXISTS (SELECT FROM pg_stats s
                                     WHERE s.schemaname = p.nspname AND s.tablename = p.relname)), true) AS columns,
       coalesce(sum(pg_stat_get_mod_since_analyze(p.oid)), 0) AS changed
  FROM part p;
