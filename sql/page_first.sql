-- The first keyset page.
-- psql -v table=short_link -v id=id -v key=code -v where='deleted_at IS NULL' -v limit=10000 -f page_first.sql
SELECT t.:"id"::text AS id, :key AS key
  FROM :table AS t
 WHERE (:where)
 ORDER BY t.:"id"
 LIMIT :'limit';
