-- About a given number of keys from random pages of a large table.
-- psql -v table=short_link -v id=id -v key=code -v where=true -v percent=0.5 -v upto=999999 -v limit=1000 -f sample.sql
SELECT :key AS key
  FROM :table AS t TABLESAMPLE SYSTEM (:'percent')
 WHERE t.:"id" <= :'upto' AND (:where)
 ORDER BY random()
 LIMIT :'limit';
