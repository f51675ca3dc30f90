-- Whether a table writes all its rows to an outbox: both triggers exist, are enabled, also in its partitions, and are of
-- the kind that the table needs (a partition, or a table with partitions, needs row triggers). Their functions do what
-- outbox.sql has made them for: the name of each ends with a hash of its definition. The triggers of a partition have the
-- functions of its parent's, but no dependency of their own.
-- ids: the names of the columns whose values they write, with commas between.
-- state: changes when the outbox was made again, or is another server's, and when a trigger or a function was missing,
-- disabled or another one in between: each such change makes or changes an entry. The triggers that a partition gets from
-- its parent are as old as its place in the tree, or as its parent's: these are left out, as each new partition has some.
-- psql -v oid=16384 -v outbox=16390 -f outbox_triggers.sql
WITH installed AS (
       SELECT p.oid, p.xmin, p.prosrc
         FROM pg_trigger u
         JOIN pg_depend d ON d.classid = 'pg_trigger'::regclass AND d.objid = u.oid AND d.refclassid = 'pg_type'::regclass
         JOIN pg_class o ON o.reltype = d.refobjid
         JOIN pg_proc p ON p.oid = u.tgfoid
        WHERE o.oid = :'outbox'::oid
          AND EXISTS (SELECT FROM (VALUES
                  (''),
                  (E'SET datestyle = ''ISO, YMD'' SET intervalstyle = ''postgres'' SET timezone = ''UTC''\n'
                   '        SET bytea_output = ''hex'' SET extra_float_digits = ''1''')) AS s (settings)
               WHERE p.proname = o.relname || '_' || left(md5(format(
                     E'() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER\n'
                     '        SET search_path = pg_catalog, pg_temp %s AS %L', s.settings, p.prosrc)), 12))
        GROUP BY p.oid, p.xmin, p.prosrc),
     tree AS (SELECT p.relid FROM pg_partition_tree(:'oid'::oid::regclass) AS p WHERE p.relid <> :'oid'::oid),
     own AS (
       SELECT t.*, t.xmin AS changed, f.xmin AS defined, f.prosrc AS source
         FROM pg_trigger t JOIN installed f ON f.oid = t.tgfoid WHERE t.tgrelid = :'oid'::oid),
     others AS (
       SELECT t.*, t.xmin AS changed
         FROM pg_trigger t JOIN installed f ON f.oid = t.tgfoid WHERE t.tgrelid IN (SELECT relid FROM tree))
SELECT (SELECT count(*) FILTER (WHERE t.tgtype & 4 > 0
                                  AND (t.tgtype & 1 > 0 OR (c.relkind = 'r' AND NOT c.relispartition))) > 0
               AND count(*) FILTER (WHERE t.tgtype & 16 > 0) > 0
          FROM own AS t WHERE t.tgenabled IN ('O', 'A'))
       AND NOT EXISTS (SELECT FROM others AS t WHERE t.tgenabled NOT IN ('O', 'A')) AS is_complete,
       format('%I.%I', n.nspname, c.relname) AS name,
       (SELECT string_agg(CASE WHEN m.id[1] LIKE '"%' THEN replace(substr(m.id[1], 2, length(m.id[1]) - 2), '""', '"')
                               ELSE m.id[1] END, ',' ORDER BY m.place)
          FROM (SELECT t.source FROM own AS t WHERE t.tgtype & 4 > 0 LIMIT 1) AS f,
               regexp_matches(f.source, 'concat\(r\.("(?:[^"]|"")*"|[a-z_][a-z0-9_]*)\)', 'g')
                   WITH ORDINALITY AS m (id, place)) AS ids,
       hashtextextended(concat_ws(' ', (SELECT system_identifier FROM pg_control_system()),
           (SELECT oid FROM pg_database WHERE datname = current_database()), :'outbox'::oid, c.oid,
           (SELECT string_agg(concat_ws(':', t.oid, t.changed, t.tgenabled, t.tgfoid, t.defined), ' ' ORDER BY t.oid)
              FROM own AS t),
           (SELECT string_agg(concat_ws(':', t.oid, t.changed, t.tgenabled), ' ' ORDER BY t.oid)
              FROM others AS t
             WHERE NOT EXISTS (SELECT FROM own WHERE own.changed = t.changed)
               AND NOT EXISTS (SELECT FROM pg_inherits i
                                WHERE i.inhrelid IN (SELECT relid FROM tree) AND i.xmin = t.changed))), 0)::text AS state
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = :'oid'::oid;
