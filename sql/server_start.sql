-- The start time of the server: it tells servers apart, and the times before and after a restart.
-- psql -f server_start.sql
SELECT extract(epoch FROM pg_postmaster_start_time())::text;
