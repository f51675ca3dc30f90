-- Where a replication slot lies: the server, whatever its address is, and the database.
-- psql -f slot_place.sql
SELECT (SELECT system_identifier FROM pg_control_system())::text || '/' || current_database() AS place;
