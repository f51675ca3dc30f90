-- Begin a transaction whose statements all see one snapshot, and which writes nothing.
-- psql -f snapshot_begin.sql
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
