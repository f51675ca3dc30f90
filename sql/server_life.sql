-- When the server was started, and when it recovered from a crash last: where one of its processes is killed all
-- sessions end, and what was not on disk is lost, but the server keeps its start time. It begins its statistics anew
-- then.
-- psql -f server_life.sql
SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), extract(epoch FROM a.stats_reset)) AS life
  FROM pg_stat_archiver a;
