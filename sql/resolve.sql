-- The table's oid; NULL: there is no such table. It runs under the role's own search_path.
-- psql -v table=short_link -f resolve.sql
SELECT pg_catalog.to_regclass(:'table')::pg_catalog.oid;
