-- Identifies a table, to notice that a name means another table now, or meant another one in between: the row type's
-- entry is written when a table is renamed or moved, its schema is named, a column's entry when its name or type
-- changes, a partition's entry when it is attached; a table that has got children by inheritance is no source any more.
-- newest: partitions made by transactions with an id at or after it are not included ('': all are). A system column is
-- as old as its table. files: the files of the rows, which change when the table is rewritten (TRUNCATE, VACUUM FULL,
-- CLUSTER, SET UNLOGGED).
-- psql -v oid=16384 -v newest=750 -f identity.sql
SELECT hashtextextended(concat_ws(' ', c.oid, c.relnamespace::regnamespace, y.xmin,
           (SELECT string_agg(concat_ws(':', a.attnum, a.xmin), ' ' ORDER BY a.attnum)
              FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
           (SELECT string_agg(concat_ws(':', i.inhrelid, i.xmin), ' ' ORDER BY i.inhrelid)
              FROM pg_partition_tree(c.oid::regclass) AS p JOIN pg_inherits i ON i.inhrelid = p.relid
             WHERE NOT EXISTS (
                   SELECT FROM pg_attribute n
                    WHERE n.attrelid = i.inhrelid AND n.attnum = -1
                      AND pg_snapshot_xmax(pg_current_snapshot())::text::numeric - NULLIF(:'newest', '')::numeric < 2000000000
                      AND age(n.xmin) BETWEEN 0 AND age((NULLIF(:'newest', '')::numeric % 4294967296)::text::xid))),
           (SELECT 'children' FROM pg_inherits i WHERE i.inhparent = c.oid AND c.relkind = 'r' LIMIT 1)), 0)::text
           AS names,
       hashtextextended(concat_ws(' ', pg_relation_filenode(c.oid),
           (SELECT string_agg(pg_relation_filenode(p.relid)::text, ' ' ORDER BY p.relid::oid)
              FROM pg_partition_tree(c.oid::regclass) AS p)), 0)::text AS files
  FROM pg_class c
  JOIN pg_type y ON y.oid = c.reltype
 WHERE c.oid = :'oid'::oid;
