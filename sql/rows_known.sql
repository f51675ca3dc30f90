-- Whether the planner knows how many rows there are: false where a part of the table that has pages was never analysed
-- (reltuples is -1 then, 0 before Postgres 14).
-- psql -v oid=16384 -f rows_known.sql
SELECT NOT EXISTS (
    SELECT
      FROM pg_class c
     WHERE c.oid IN (SELECT :'oid'::oid
                      UNION ALL
                     SELECT p.relid FROM pg_partition_tree(:'oid'::oid::regclass) AS p WHERE p.isleaf)
       AND c.relkind = 'r' AND c.reltuples <= 0 AND pg_relation_size(c.oid) > 0);
