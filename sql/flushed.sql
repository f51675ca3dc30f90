-- Whether a crash of the server would preserve all that was written to its WAL up to a barrier (barrier.sql): with
-- synchronous_commit = off, transactions end and become visible before that. The ids of lost transactions are used
-- again.
-- psql -v barrier=0/16B3748 -f flushed.sql
SELECT pg_current_wal_flush_lsn() >= split_part(:'barrier', ' ', 1)::pg_lsn AS flushed;
