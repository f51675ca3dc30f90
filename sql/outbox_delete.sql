-- Delete rows of an outbox that were taken over, by their numbers. If the outbox was truncated, rewritten or recreated,
-- these numbers belong to other rows, so the table's file must be the one that they were read from.
-- psql -v outbox=twinbloom_outbox -v file=16390 -v taken='{1,2,5}' -f outbox_delete.sql
DELETE FROM :outbox AS o
 WHERE o.seq = ANY (:'taken'::bigint[]) AND pg_relation_filenode(o.tableoid) = :'file'::oid;
