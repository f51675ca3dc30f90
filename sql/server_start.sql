-- Since when the server runs: tells servers apart, and the time before a restart from that after it.
-- psql -f server_start.sql
SELECT extract(epoch FROM pg_postmaster_start_time())::text;
