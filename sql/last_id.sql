-- The largest id, read from the end of its index (max() does not exist for every type that can be an id).
-- psql -v table=short_link -v id=t.id -v descending='t.id DESC' -f last_id.sql
SELECT :id
  FROM :table AS t
 ORDER BY :descending
 LIMIT 1;
