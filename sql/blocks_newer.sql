-- The keys of those rows in a range of a table's blocks whose present version was written by a transaction with an id
-- at or after a horizon, as COPY sends them. There are few such rows: they are found first, by the row's header, so
-- that no column of the other rows is read.
-- psql -v table=short_link -v key=t.code -v where='t.deleted_at IS NULL' -v blocks="t.ctid >= '(0,0)' AND t.ctid < '(1000,0)'" -v newer="age(t.xmin) <= age('750'::xid)" -f blocks_newer.sql
COPY (SELECT :key
        FROM :table AS t
       WHERE t.ctid = ANY (ARRAY (SELECT t.ctid FROM :table AS t WHERE (:blocks) AND (:newer)))
         AND (:where)) TO STDOUT;
