-- The columns by which a table can be read page by page: those of its primary key first, then those of its other
-- unique indexes over all rows, without columns that may be NULL.
-- psql -v oid=16384 -f primary_key.sql
SELECT i.indisprimary AS is_primary,
       string_agg(quote_ident(a.attname), ', ' ORDER BY k.n) AS columns
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_am m ON m.oid = c.relam
 CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, n)
  LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
 WHERE i.indrelid = :'oid'::oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree'
   AND k.n <= i.indnkeyatts
 GROUP BY i.indexrelid, i.indisprimary
HAVING bool_and(coalesce(a.attnotnull, false))
 ORDER BY i.indisprimary DESC, count(*), columns;
