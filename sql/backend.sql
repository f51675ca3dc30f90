-- The session of the server that answers. Where a pooler is between, it is not the one that a client connected to.
-- psql -f backend.sql
SELECT pg_backend_pid() AS pid;
