-- Delete rows of an outbox that were taken over, by their numbers. If the outbox was recreated under the same name,
-- these numbers belong to other rows, so the table must be the one that they were read from.
-- psql -v outbox=twinbloom_outbox -v oid=16390 -v taken='{1,2,5}' -f outbox_delete.sql
DELETE FROM :outbox AS o
 WHERE o.seq = ANY (:'taken'::bigint[]) AND o.tableoid = :'oid'::oid;
