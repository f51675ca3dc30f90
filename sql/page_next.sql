-- The keyset page after an id. Never OFFSET: its cost would grow with the position.
-- psql -v table=short_link -v id=id -v key=code -v where='deleted_at IS NULL' -v after=100 -v limit=10000 -f page_next.sql
SELECT t.:"id"::text AS id, :key AS key
  FROM :table AS t
 WHERE t.:"id" > :'after' AND (:where)
 ORDER BY t.:"id"
 LIMIT :'limit';
