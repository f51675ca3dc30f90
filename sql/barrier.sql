-- The end of the primary's WAL. A standby that has replayed up to there shows every transaction that had ended.
-- psql -f barrier.sql
SELECT pg_current_wal_insert_lsn()::text AS lsn;
