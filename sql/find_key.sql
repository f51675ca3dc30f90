-- The oldest row of a key, and whether its present version was written by a transaction with an id at or after a
-- horizon.
-- psql -v table=short_link -v id=t.id -v key=t.code -v where=true -v wanted=abc -v horizon=750 -f find_key.sql
SELECT (:id)::text AS id,
       age(t.xmin) <= CASE WHEN pg_snapshot_xmax(pg_current_snapshot())::text::numeric - :'horizon'::numeric < 2000000000
                           THEN age((:'horizon'::numeric % 4294967296)::text::xid)
                           ELSE 2147483647 END AS is_new
  FROM :table AS t
 WHERE :key = :'wanted' AND (:where)
 ORDER BY is_new
 LIMIT 1;
