-- A keyset page as COPY sends it: the columns of the id, then the key. Never OFFSET: its cost would grow with the
-- position.
-- psql -v table=short_link -v id=t.id -v key=t.code -v where='t.deleted_at IS NULL' -v after="(t.id) > ('100')" -v upto="(t.id) <= ('999')" -v limit=10000 -f page.sql
COPY (SELECT :id, :key
        FROM :table AS t
       WHERE (:after) AND (:upto) AND (:where)
       ORDER BY :id
       LIMIT :limit) TO STDOUT;
