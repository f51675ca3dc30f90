-- How many transactions the server's sessions have ended, in all databases, since its statistics began. A session
-- reports its own at most once a second.
-- psql -f transactions.sql
SELECT sum(d.xact_commit + d.xact_rollback)::int8 AS transactions
  FROM pg_stat_database d;
