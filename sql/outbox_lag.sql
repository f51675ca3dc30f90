-- The age of the first row that waits in an outbox, in seconds; 0: none waits.
-- psql -v outbox=twinbloom_outbox -f outbox_lag.sql
SELECT greatest(0, coalesce(extract(epoch FROM clock_timestamp()
                                - (SELECT o.created_at FROM :outbox AS o ORDER BY o.seq LIMIT 1)), 0))::float8 AS seconds;
