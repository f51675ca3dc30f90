-- A transaction with an id, so that the server writes its end, and all before it, to disk.
-- psql -f instant.sql
SELECT pg_current_xact_id()::text AS instant;
