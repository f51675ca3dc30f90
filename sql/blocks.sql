-- The keys in a range of a table's blocks, in the order of the blocks, as COPY sends them: of all rows, or of those
-- whose present version was written by a transaction with an id at or after a horizon.
-- psql -v table=short_link -v key=t.code -v where='t.deleted_at IS NULL' -v blocks="t.ctid >= '(0,0)' AND t.ctid < '(1000,0)'" -v newer="age(t.xmin) <= age('750'::xid)" -f blocks.sql
COPY (SELECT :key
        FROM :table AS t
       WHERE (:blocks) AND (:newer) AND (:where)) TO STDOUT;
