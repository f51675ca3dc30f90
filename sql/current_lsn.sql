-- The end of the write-ahead log: all that is committed and visible lies before it. On a standby: the end of what was
-- replayed. The sizes of a page and a segment of the log tell the end of the last record from the header of an empty
-- page.
-- psql -f current_lsn.sql
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END AS lsn,
       current_setting('wal_block_size') AS block,
       pg_size_bytes(current_setting('wal_segment_size')) AS segment;
