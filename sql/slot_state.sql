-- A replication slot, and how much of the write-ahead log it retains. Always one row. wal_status 'lost': the server
-- has removed WAL that the slot still needed (max_slot_wal_keep_size), or has invalidated the slot otherwise.
-- psql -v slot=twinbloom -f slot_state.sql
SELECT s.slot_name IS NOT NULL AS exists,
       coalesce(s.plugin, '') AS plugin,
       coalesce(s.database, '') AS database,
       coalesce(s.database = current_database(), false) AS is_here,
       coalesce(s.active, false) AS active,
       coalesce(s.active_pid, 0) AS active_pid,
       coalesce(s.restart_lsn, '0/0') AS restart_lsn,
       coalesce(s.confirmed_flush_lsn, '0/0') AS confirmed_flush_lsn,
       coalesce(s.wal_status, '') AS wal_status,
       coalesce(greatest(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                              ELSE pg_current_wal_lsn() END - s.restart_lsn, 0), 0)::bigint AS retained
  FROM (SELECT) AS one
  LEFT JOIN pg_replication_slots s ON s.slot_name = :'slot';
