-- The unique indexes that begin with the first column of an id, the best first. Usable for keyset pages: valid, with
-- exactly the id's columns in their order, over all rows, a btree with the columns' default order, all ascending or
-- all descending.
-- psql -v oid=16384 -v columns='{id}' -f unique_index.sql
SELECT i.indexrelid::regclass::text AS name,
       i.indisvalid AND i.indisready AND i.indislive AS is_valid,
       i.indnkeyatts = cardinality(:'columns'::text[]) AND i.indpred IS NULL AND m.amname = 'btree'
           AND (SELECT bool_and(a.attname IS NOT NULL AND o.opcdefault AND i.indcollation[n - 1] = a.attcollation
                                AND i.indoption[n - 1] = i.indoption[0])
                  FROM unnest(:'columns'::text[]) WITH ORDINALITY AS wanted(name, n)
                  LEFT JOIN pg_attribute a
                    ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n - 1] AND a.attname = wanted.name
                  LEFT JOIN pg_opclass o ON o.oid = i.indclass[n - 1]) AS is_suitable
  FROM pg_index i
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_am m ON m.oid = c.relam
 WHERE i.indrelid = :'oid'::oid AND a.attname = (:'columns'::text[])[1] AND i.indisunique
 ORDER BY is_suitable DESC, is_valid DESC;
