-- The table's oid; NULL where there is none. The only statement that runs under the role's own search_path.
-- psql -v table=short_link -f resolve.sql
SELECT pg_catalog.to_regclass(:'table')::pg_catalog.oid;
