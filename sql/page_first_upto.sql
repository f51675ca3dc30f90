-- The first keyset page of the ids up to a bound.
-- psql -v table=short_link -v id=id -v key=code -v where='deleted_at IS NULL' -v upto=999 -v limit=10000 -f page_first_upto.sql
SELECT t.:"id"::text AS id, :key AS key
  FROM :table AS t
 WHERE t.:"id" <= :'upto' AND (:where)
 ORDER BY t.:"id"
 LIMIT :'limit';
