-- A transaction id: transactions that begin from now on have this id or a later one. A transaction gets its id when it
-- first writes, so the rows of one that has none yet carry this id or a later one as well.
-- psql -f horizon.sql
SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS horizon;
