-- A relation, and the tables that it is a partition of.
-- psql -v oid=16384 -f ancestors.sql
SELECT :'oid'::oid AS relid
UNION
SELECT a.relid::oid FROM pg_partition_ancestors(:'oid'::oid::regclass) AS a;
