-- Whether this server shows all that the primary had committed at a barrier (see barrier.sql): it is that primary
-- itself, or a standby on its timeline that has replayed so far. why_not: '' if it does. is_foreign: waiting for replay
-- does not help. A standby notes a new timeline at its next restart point, or when it next writes pages.
-- psql -v barrier='0/1000 7000000000000000000 5 00000001 1700000000.5' -f replayed.sql
SELECT CASE WHEN f.foreign_by <> '' THEN f.foreign_by
            WHEN NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= f.lsn THEN ''
            ELSE concat('the standby has not replayed up to ', f.lsn) END AS why_not,
       f.foreign_by <> '' AS is_foreign
  FROM (SELECT b.lsn,
               CASE WHEN b.system <> (SELECT system_identifier::text FROM pg_control_system())
                    THEN 'the server has another system identifier than the one of dsn'
                    WHEN b.database <> (SELECT oid::text FROM pg_database WHERE datname = current_database())
                    THEN 'the database is another one than that of dsn'
                    WHEN NOT pg_is_in_recovery()
                    THEN CASE WHEN b.start = extract(epoch FROM pg_postmaster_start_time())::text THEN ''
                              ELSE 'the server is no standby, and not the server of dsn' END
                    WHEN b.timeline <> t.timeline
                    THEN concat('the standby is on timeline ', t.timeline, ', and the server of dsn on ', b.timeline)
                    ELSE '' END AS foreign_by
          FROM (SELECT split_part(v.barrier, ' ', 1)::pg_lsn AS lsn,
                       split_part(v.barrier, ' ', 2) AS system,
                       split_part(v.barrier, ' ', 3) AS database,
                       split_part(v.barrier, ' ', 4) AS timeline,
                       split_part(v.barrier, ' ', 5) AS start
                  FROM (SELECT :'barrier'::text AS barrier) AS v) AS b,
               (SELECT lpad(upper(to_hex(greatest(c.timeline_id, r.min_recovery_end_timeline))), 8, '0') AS timeline
                  FROM pg_control_checkpoint() AS c, pg_control_recovery() AS r) AS t) AS f;
