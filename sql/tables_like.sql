-- Tables and partitioned tables whose names match a pattern (% any text, _ a character), in schemas that match a
-- pattern or that the role's own search_path names. Partitions are omitted, as they are read with their parent, and
-- temporary tables are, too. It runs under the role's own search_path.
-- psql -v pattern='t\_link\_%' -v schema='' -f tables_like.sql
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence OPERATOR(pg_catalog.<>) 't'
   AND c.relname OPERATOR(pg_catalog.~~) :'pattern'
   AND CASE WHEN :'schema' OPERATOR(pg_catalog.=) '' THEN pg_catalog.pg_table_is_visible(c.oid)
            ELSE n.nspname OPERATOR(pg_catalog.~~) :'schema' END
 ORDER BY 1;
