-- A random sample of a small table; it may be all of it.
-- psql -v table=short_link -v key=t.code -v where=true -v older="age(t.xmin) > age('750'::xid)" -v limit=1000 -f sample_small.sql
COPY (SELECT :key
        FROM :table AS t
       WHERE (:older) AND (:where)
       ORDER BY random()
       LIMIT :limit) TO STDOUT;
