-- The type of an expression over a table's rows. It stands in the condition too, which has no place for what makes several rows of
-- one, or one of several.
-- psql -v table=short_link -v key="t.code || '/' || t.url" -f key_type.sql
SELECT pg_typeof((SELECT :key FROM :table AS t WHERE (:key) IS NULL LIMIT 0))::text AS type;
