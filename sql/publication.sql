-- For the DBA, once, before the slot is made: what a stream reads. As the table's owner, with CREATE on the database. Several
-- tables: one after the other, with commas. Needs wal_level = logical.
-- With the id columns in parentheses (all of them, and those of the replica identity) nothing else of a row leaves the
-- server; without, all columns do. UPDATE is refused by Postgres for a published table that has no replica
-- identity: it needs a primary key, or ALTER TABLE ... REPLICA IDENTITY USING INDEX or FULL.
-- Deletes are not published, so that a DELETE needs none. Rows of partitions come as rows of the table. No WHERE: it would
-- hide rows.
-- psql -v publication=twinbloom -v table='short_link (id)' -f publication.sql
CREATE PUBLICATION :"publication" FOR TABLE :table
  WITH (publish = 'insert, update', publish_via_partition_root = true);
