-- The relations that hold a table's rows (the table, or its partitions), their blocks, and their files, which change
-- when the table is rewritten (VACUUM FULL, CLUSTER, TRUNCATE). may_select: this role may read from the relation
-- itself what it may read from the table.
-- psql -v oid=16384 -f parts.sql
SELECT format('%I.%I', n.nspname, c.relname) AS name,
       pg_relation_size(c.oid) / current_setting('block_size')::int AS blocks,
       pg_relation_filenode(c.oid) AS file,
       has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, 'xmin', 'SELECT')
           AND has_column_privilege(c.oid, 'ctid', 'SELECT')
           AND NOT EXISTS (SELECT FROM pg_attribute a
                            WHERE a.attrelid = :'oid'::oid AND a.attnum > 0 AND NOT a.attisdropped
                              AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
                              AND NOT has_column_privilege(c.oid, a.attname, 'SELECT')) AS may_select
  FROM (SELECT :'oid'::oid AS oid
         WHERE NOT EXISTS (SELECT FROM pg_partition_tree(:'oid'::oid::regclass))
         UNION ALL
        SELECT p.relid::oid FROM pg_partition_tree(:'oid'::oid::regclass) AS p WHERE p.isleaf) AS part
  JOIN pg_class c ON c.oid = part.oid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r'
 ORDER BY c.oid;
