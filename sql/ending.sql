-- How many of these transactions have not ended for other sessions: a replication stream has a commit before the
-- session that committed releases its transaction (much later, if it waits for a synchronous standby). Until then its
-- rows are not visible.
-- psql -v transactions='{731,732}' -f ending.sql
SELECT count(*) AS ending
  FROM pg_locks
 WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
   AND transactionid::text = ANY (:'transactions'::text[]);
