-- A hash of the transaction's snapshot, the lock, and the time, as in snapshot_export.sql.
-- psql -f snapshot_current.sql
SELECT hashtextextended(pg_current_snapshot()::text, 0)::text AS snapshot,
       pg_advisory_xact_lock_shared(1952607074, 1),
       set_config('idle_in_transaction_session_timeout', '600000', true);
