-- The type of an expression over a table's rows. The expression is also in the condition, which rejects aggregates and
-- set-returning functions.
-- psql -v table=short_link -v key="t.code || '/' || t.url" -f key_type.sql
SELECT pg_typeof((SELECT :key FROM :table AS t WHERE (:key) IS NULL LIMIT 0))::text AS type;
