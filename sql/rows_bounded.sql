-- An exact count that stops at a bound.
-- psql -v table=short_link -v where='deleted_at IS NULL' -v bound=5000 -f rows_bounded.sql
SELECT count(*) FROM (SELECT FROM :table AS t WHERE (:where) LIMIT :'bound') AS bounded;
