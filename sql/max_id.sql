-- The largest id, read from the end of its index (max() does not exist for every type that can be an id).
-- psql -v table=short_link -v id=id -f max_id.sql
SELECT t.:"id"::text AS id
  FROM :table AS t
 ORDER BY t.:"id" DESC
 LIMIT 1;
