-- The row of a key, and whether its present version was written by a transaction that got its id at or after a horizon.
-- psql -v table=short_link -v id=id -v key=code -v where=true -v wanted=abc -v horizon=750 -f find_key.sql
SELECT t.:"id"::text AS id,
       age(t.xmin) <= age((:'horizon'::numeric % 4294967296)::text::xid) AS is_new
  FROM :table AS t
 WHERE :key = :'wanted' AND (:where)
 LIMIT 1;
