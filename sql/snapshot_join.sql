-- Use a snapshot that another session has exported. It is the transaction's first statement.
-- psql -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -v name="'00000003-0000001B-1'" -f snapshot_join.sql
SET TRANSACTION SNAPSHOT :name;
