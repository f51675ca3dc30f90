-- The prepared transactions of this database, as xid / gid.
-- psql -f prepared_open.sql
SELECT coalesce(array_agg(p.transaction::text || '/' || p.gid), '{}')::text AS noted
  FROM pg_prepared_xacts p
 WHERE p.database = current_database();
