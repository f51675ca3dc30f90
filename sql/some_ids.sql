-- Ids from random pages, sorted, to cut a large table into parts of similar size.
-- psql -v table=short_link -v id=t.id -v percent=0.1 -f some_ids.sql
SELECT :id
  FROM :table AS t TABLESAMPLE SYSTEM (:'percent')
 ORDER BY :id
 LIMIT 100000;
