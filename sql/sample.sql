-- About a given number of keys from random pages of a large table, of rows whose present version was written by a
-- transaction with an id before a horizon.
-- psql -v table=short_link -v key=t.code -v where=true -v percent=0.5 -v older="age(t.xmin) > age('750'::xid)" -v limit=1000 -f sample.sql
COPY (SELECT :key
        FROM :table AS t TABLESAMPLE SYSTEM (:percent)
       WHERE (:older) AND (:where)
       ORDER BY random()
       LIMIT :limit) TO STDOUT;
