-- Facts that decide whether a table can be a source, and its name as the server quotes it.
-- psql -v oid=16384 -f source_table.sql
SELECT format('%I.%I', n.nspname, c.relname) AS name,
       c.relkind IN ('r', 'p') AS is_table,
       -- ids of children by inheritance are not covered by the parent's index; partitions are
       c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid) AS has_children,
       row_security_active(c.oid) AS hides_rows,
       has_schema_privilege(n.oid, 'USAGE') AS may_use_schema,
       -- a view has no such columns
       CASE WHEN c.relkind IN ('r', 'p')
            THEN has_column_privilege(c.oid, 'xmin', 'SELECT') AND has_column_privilege(c.oid, 'ctid', 'SELECT')
            ELSE false END AS may_see_versions,
       quote_ident(n.nspname) AS schema,
       quote_ident(current_user) AS role,
       pg_is_in_recovery() AS is_standby
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = :'oid'::oid;
