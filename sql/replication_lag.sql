-- Replay lag of the furthest standby, in seconds; 0: none streams, or all have caught up; -1: this role may not see it
-- (pg_monitor or pg_read_all_stats is needed: for others the columns are NULL).
-- psql -f replication_lag.sql
SELECT CASE WHEN count(*) > count(r.state) THEN -1
            ELSE coalesce(extract(epoch FROM max(r.replay_lag)), 0)
       END::float8 AS seconds
  FROM pg_stat_replication r;
