-- Facts that decide whether a table can be read as an outbox, and its name as the server quotes it.
-- psql -v oid=16384 -f outbox_table.sql
SELECT format('%I.%I', n.nspname, c.relname) AS name,
       c.relkind = 'r' AND 3 = (
           SELECT count(*) FROM pg_attribute a
            WHERE a.attrelid = c.oid AND (a.attname, a.atttypid::regtype) IN
                  (('seq', 'bigint'::regtype), ('relid', 'oid'::regtype), ('id', 'text'::regtype))) AS is_outbox,
       c.relpersistence = 'p' AS is_logged,
       row_security_active(c.oid) AS hides_rows,
       has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'DELETE') AS may_use,
       has_schema_privilege(n.oid, 'USAGE') AS may_use_schema,
       quote_ident(n.nspname) AS schema,
       quote_ident(current_user) AS role,
       pg_is_in_recovery() AS is_standby
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = :'oid'::oid;
