-- The planner's estimate: "Plan Rows" of the outermost plan. It scales ANALYZE's count to the table's present size,
-- and takes the condition's selectivity from the statistics.
-- psql -v table=short_link -v where='deleted_at IS NULL' -f rows_estimate.sql
EXPLAIN (FORMAT JSON)
SELECT FROM :table AS t WHERE (:where);
