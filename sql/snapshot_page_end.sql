-- Release the locks of a page, not the snapshot: otherwise an ALTER TABLE would wait until all pages are read, and all
-- other sessions behind it.
-- psql -c 'BEGIN; SAVEPOINT page' -f snapshot_page_end.sql
ROLLBACK TO SAVEPOINT page;
