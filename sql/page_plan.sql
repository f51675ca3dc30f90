-- How the server would read a keyset page.
-- psql -v table=short_link -v id=t.id -v key=t.code -v where='t.deleted_at IS NULL' -v after="(t.id) > ('100')" -v upto=true -v limit=10000 -f page_plan.sql
EXPLAIN (FORMAT JSON)
SELECT :id, :key
  FROM :table AS t
 WHERE (:after) AND (:upto) AND (:where)
 ORDER BY :id
 LIMIT :limit;
