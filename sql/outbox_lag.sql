-- How many rows wait in an outbox (counted up to a bound), and the age of the first of them in seconds.
-- psql -v outbox=twinbloom_outbox -v bound=1000000 -f outbox_lag.sql
SELECT (SELECT count(*) FROM (SELECT FROM :outbox LIMIT :'bound') AS bounded) AS rows,
       greatest(0, coalesce(extract(epoch FROM clock_timestamp()
                                - (SELECT o.created_at FROM :outbox AS o ORDER BY o.seq LIMIT 1)), 0))::float8 AS seconds;
