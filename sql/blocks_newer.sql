-- The keys of those rows in a range of a table's blocks whose present version was written by a transaction that got its id at
-- or after a horizon, as COPY sends them. Few are: they are looked for first, by what a row's head says, so that of all
-- others no column is taken out.
-- psql -v table=short_link -v key=t.code -v where='t.deleted_at IS NULL' -v blocks="t.ctid >= '(0,0)' AND t.ctid < '(1000,0)'" -v newer="age(t.xmin) <= age('750'::xid)" -f blocks_newer.sql
COPY (SELECT :key
        FROM :table AS t
       WHERE t.ctid = ANY (ARRAY (SELECT t.ctid FROM :table AS t WHERE (:blocks) AND (:newer)))
         AND (:where)) TO STDOUT;
