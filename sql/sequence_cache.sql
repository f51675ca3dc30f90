-- The largest cache of the sequences that a column's values come from. Above 1, each session takes ids in advance:
-- rows that are committed later may have smaller ids.
-- psql -v oid=16384 -v column=id -f sequence_cache.sql
SELECT coalesce(max(s.seqcache), 1) AS cache
  FROM pg_attribute a
  JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
   AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
  JOIN pg_sequence s ON s.seqrelid = d.objid
 WHERE a.attrelid = :'oid'::oid AND a.attname = :'column';
