-- Whether a standby has replayed up to a position of the primary's WAL. A primary always has.
-- psql -v lsn=0/1000 -f replayed.sql
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() >= :'lsn'::pg_lsn ELSE true END AS is_there;
