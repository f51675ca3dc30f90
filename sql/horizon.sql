-- The transaction id from which on transactions began after this moment. A transaction without an id gets one when it
-- first writes, so its rows carry this id or a later one as well.
-- psql -f horizon.sql
SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS horizon;
