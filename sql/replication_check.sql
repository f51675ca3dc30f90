-- What logical replication needs of the server and of this role.
-- psql -f replication_check.sql
SELECT pg_is_in_recovery() AS is_standby,
       current_setting('wal_level') = 'logical' AS is_logical,
       r.rolsuper OR r.rolreplication AS may_replicate,
       quote_ident(r.rolname) AS role,
       current_setting('max_wal_senders') AS max_wal_senders,
       current_setting('max_replication_slots') AS max_replication_slots,
       (SELECT p.setting FROM pg_settings p WHERE p.name = 'wal_sender_timeout') AS wal_sender_timeout
  FROM pg_roles r
 WHERE r.rolname = current_user;
