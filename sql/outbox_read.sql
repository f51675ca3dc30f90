-- The oldest rows of an outbox, without those that the reader has taken from that file and not yet deleted. A number
-- below one that was read may still come, from a longer transaction.
-- psql -v outbox=twinbloom_outbox -v file=16390 -v taken='{}' -v limit=5000 -f outbox_read.sql
SELECT o.seq, o.relid, o.id, o.tableoid, pg_relation_filenode(o.tableoid) AS file
  FROM :outbox AS o
 WHERE o.seq <> ALL (:'taken'::bigint[]) OR pg_relation_filenode(o.tableoid) <> :'file'::oid
 ORDER BY o.seq
 LIMIT :'limit';
