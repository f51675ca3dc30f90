-- The relations under which the rows of a table may come in a stream: the table, its partitions, and, if a publication
-- has publish_via_partition_root, a table that it is a partition of.
-- psql -v oid=16384 -f stream_relations.sql
SELECT :'oid'::oid AS relid
UNION
SELECT t.relid::oid FROM pg_partition_tree(:'oid'::oid::regclass) AS t
UNION
SELECT a.relid::oid FROM pg_partition_ancestors(:'oid'::oid::regclass) AS a;
