-- The unique indexes that begin with a column, the best first. Usable for keyset pages: valid, of this column alone,
-- over all rows, a btree of the column's own order.
-- psql -v oid=16384 -v column=id -f unique_index.sql
SELECT i.indexrelid::regclass::text AS name,
       i.indisvalid AND i.indisready AND i.indislive AS is_valid,
       i.indnkeyatts = 1 AND i.indpred IS NULL AND m.amname = 'btree' AND o.opcdefault
           AND i.indcollation[0] = a.attcollation AS is_suitable
  FROM pg_index i
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_am m ON m.oid = c.relam
  JOIN pg_opclass o ON o.oid = i.indclass[0]
 WHERE i.indrelid = :'oid'::oid AND a.attname = :'column' AND i.indisunique
 ORDER BY is_suitable DESC, is_valid DESC;
