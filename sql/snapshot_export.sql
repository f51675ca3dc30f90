-- The name by which other sessions of this server can use the transaction's snapshot while it is open, and a hash of
-- the snapshot. The lock tells settle_waiting.sql that this transaction writes nothing. It may rest while a job is
-- throttled or paused; for longer, it would hold vacuum up.
-- psql -f snapshot_export.sql
SELECT concat_ws(' ', pg_export_snapshot(), hashtextextended(pg_current_snapshot()::text, 0)) AS snapshot,
       pg_advisory_xact_lock_shared(1952607074, 1),
       set_config('idle_in_transaction_session_timeout', '600000', true);
