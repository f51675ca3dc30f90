-- The keyset page after an id, of the ids up to a bound.
-- psql -v table=short_link -v id=id -v key=code -v where='deleted_at IS NULL' -v after=100 -v upto=999 -v limit=10000 -f page_next_upto.sql
SELECT t.:"id"::text AS id, :key AS key
  FROM :table AS t
 WHERE t.:"id" > :'after' AND t.:"id" <= :'upto' AND (:where)
 ORDER BY t.:"id"
 LIMIT :'limit';
