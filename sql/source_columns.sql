-- One column: its type without domains, whether it may be NULL, whether this role may read it. No row: there is no
-- such column.
-- psql -v oid=16384 -v column=code -f source_columns.sql
WITH RECURSIVE attribute AS (
    SELECT a.attrelid, a.attnum, a.attname, a.attnotnull, a.atttypid, a.attcollation
      FROM pg_attribute a
     WHERE a.attrelid = :'oid'::oid AND a.attname = :'column' AND a.attnum > 0 AND NOT a.attisdropped
), type AS (
    SELECT t.oid, t.typtype, t.typbasetype FROM pg_type t JOIN attribute a ON a.atttypid = t.oid
    UNION ALL
    SELECT b.oid, b.typtype, b.typbasetype FROM pg_type b JOIN type t ON t.typtype = 'd' AND b.oid = t.typbasetype
)
SELECT quote_ident(a.attname) AS name,
       format_type(t.oid, NULL) AS type,
       a.attnotnull AS not_null,
       has_column_privilege(a.attrelid, a.attnum, 'SELECT') AS may_select
  FROM attribute a, type t
 WHERE t.typtype <> 'd';
