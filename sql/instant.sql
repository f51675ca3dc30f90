-- A transaction id of its own: every moment.sql before this one says a `next` that is no larger, every one after it a larger one.
-- psql -f instant.sql
SELECT pg_current_xact_id()::text AS instant;
