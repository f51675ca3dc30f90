-- Checks that a text is one condition: in brackets, a parenthesis that closes what it did not open is an error.
-- psql -v table=short_link -v where='t.deleted_at IS NULL' -f condition.sql
SELECT FROM :table AS t WHERE (ARRAY[:where])[1] LIMIT 0;
