-- Mark the place to which each page rolls back.
-- psql -c BEGIN -f snapshot_page.sql
SAVEPOINT page;
