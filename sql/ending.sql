-- How many of these transactions are not over for others: a stream of the log tells of a commit before the session that
-- committed has let go of its transaction (for long, where it waits for a synchronous standby). Until then its rows are
-- not visible.
-- psql -v transactions='{731,732}' -f ending.sql
SELECT count(*) AS ending
  FROM pg_locks
 WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
   AND transactionid::text = ANY (:'transactions'::text[]);
