-- The oldest rows of an outbox, without those that the reader has taken and not yet deleted. A number below one that
-- was read may still come, from a longer transaction.
-- psql -v outbox=twinbloom_outbox -v taken='{}' -v limit=5000 -f outbox_read.sql
SELECT o.seq, o.relid, o.id, o.tableoid
  FROM :outbox AS o
 WHERE o.seq <> ALL (:'taken'::bigint[])
 ORDER BY o.seq
 LIMIT :'limit';
