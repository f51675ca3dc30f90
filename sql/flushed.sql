-- Whether a crash of the server would leave all that was written to its WAL up to a place: with synchronous_commit = off
-- transactions end, and are seen by others, before that. Ids of those that are lost are given again.
-- psql -v lsn=0/16B3748 -f flushed.sql
SELECT pg_current_wal_flush_lsn() >= :'lsn'::pg_lsn AS flushed;
