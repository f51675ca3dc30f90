-- Subscribe to notifications of writers; the payload is the outbox's name as outbox_table.sql gives it.
-- psql -f outbox_listen.sql
LISTEN twinbloom;
