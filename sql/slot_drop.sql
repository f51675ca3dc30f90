-- Drop a slot that a stream made. No row: there is no such slot. Fails while a connection reads from it.
-- psql -v slot=twinbloom -f slot_drop.sql
SELECT pg_drop_replication_slot(s.slot_name)
  FROM pg_replication_slots s
 WHERE s.slot_name = :'slot' AND s.plugin = 'pgoutput' AND s.database = current_database();
