-- A random sample of a small table, which may be all of it.
-- psql -v table=short_link -v id=id -v key=code -v where=true -v upto=999 -v limit=1000 -f sample_small.sql
SELECT :key AS key
  FROM :table AS t
 WHERE t.:"id" <= :'upto' AND (:where)
 ORDER BY random()
 LIMIT :'limit';
