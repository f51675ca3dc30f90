-- The keys of rows with known ids, as COPY sends them.
-- psql -v table=short_link -v id=t.id -v key=t.code -v where='t.deleted_at IS NULL' -v ids="('1'), ('2')" -f keys_of.sql
COPY (SELECT :key
        FROM :table AS t
       WHERE (:id) IN (:ids) AND (:where)) TO STDOUT;
