-- For the DBA: an outbox, and triggers by which every row that comes into a table, and every row whose id or other given
-- columns change, leaves its id there. Twinbloom reads the outbox, takes the rows over and deletes what it has read. It
-- can be run again: after the table became a partition or its id another one, for another table, for another reader.
-- Needs the owner of table and outbox, or a superuser. Postgres 14 or newer. outbox_drop.sql takes it all away.
--
--   table    whose rows are wanted: a table or a partitioned table
--   id       its id columns as `id_column` names them, with commas between; they must be NOT NULL
--   columns  those that change which key a row stands for: of `key` and of `where`; '' for none
--   outbox   the table to be made; the session's search_path decides the schema where it is not qualified
--   reader   the role of Twinbloom; it gets SELECT and DELETE on the outbox, nothing else
--   notify   true: the writers wake Twinbloom up. false: it finds the rows within half a second. Use false where writers
--            use PREPARE TRANSACTION, which Postgres refuses after a NOTIFY, and where hundreds of sessions commit at the
--            same time: commits with a NOTIFY happen one after the other
--
-- Rows that are inserted into a plain table are taken at the end of the statement, all in one go: about 1.3 us a row, and
-- 4.7 us by a trigger for each row. That does not work for a partitioned table, whose statement triggers do not fire for
-- rows that are inserted into a partition directly, nor are they inherited by one that is attached later; nor for a
-- partition, whose own do not fire for its parent; nor for what logical replication brings, which fires row triggers alone.
-- These tables get a trigger for each row, and every partition inherits it. Updates always have one: its condition costs
-- little where the given columns stay. It compares bytes, so that what is equal but written in another way counts, and it
-- sees what a BEFORE trigger changed, which UPDATE OF does not. The triggers fire whatever session_replication_role is.
--
-- Writers need no right on the outbox: the functions run as their owner. A condition of the triggers names the type of the
-- outbox, so that DROP TABLE is refused while they are there, and with CASCADE takes them along: no writer fails for want of
-- the outbox. To rename an id column or the outbox, or to change the type of a given column: take it away, alter, and make
-- it again in one transaction; what was not read by then needs a rebuild. While a transaction stays open for hours each
-- look passes over all that was deleted meanwhile.
-- psql -v table=short_link -v id=id -v columns='code, deleted_at' -v outbox=twinbloom_outbox -v reader=twinbloom -v notify=true -f outbox.sql
CREATE TABLE IF NOT EXISTS :outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relid pg_catalog.oid NOT NULL,
    id pg_catalog.text NOT NULL,
    created_at pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

SET twinbloom.source = :'table';
SET twinbloom.id = :'id';
SET twinbloom.columns = :'columns';
SET twinbloom.outbox = :'outbox';
SET twinbloom.reader = :'reader';
SET twinbloom.notify = :'notify';

-- Names of table and outbox are looked up by the session's search_path, and nothing else: whoever may write to a schema of it
-- could put functions and types there that fit better than those of pg_catalog, and have a superuser run them.
DO $install$
DECLARE
    path CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
    source CONSTANT pg_catalog.regclass := pg_catalog.current_setting('twinbloom.source')::pg_catalog.regclass;
    outbox CONSTANT pg_catalog.regclass := pg_catalog.current_setting('twinbloom.outbox')::pg_catalog.regclass;
    safe CONSTANT pg_catalog.text := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    -- values as COPY writes them
    escaped CONSTANT pg_catalog.text :=
        $e$replace(replace(replace(replace(replace(replace(replace(%s COLLATE "C", E'\\', E'\\\\'),
        E'\b', E'\\b'), E'\f', E'\\f'), E'\n', E'\\n'), E'\r', E'\\r'), E'\t', E'\\t'), E'\x0b', E'\\v')$e$;
    never_escaped CONSTANT pg_catalog.regtype[] := '{smallint, integer, bigint, uuid}';
    -- and in one form, whatever the writer's settings are
    settings pg_catalog.text := $s$SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET timezone = 'UTC'
        SET bytea_output = 'hex' SET extra_float_digits = '1'$s$;
    no_settings CONSTANT pg_catalog.regtype[] := never_escaped || '{numeric, text, varchar, bpchar}';
    definition CONSTANT pg_catalog.text := $f$() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp %s AS %L$f$;
    of_row CONSTANT pg_catalog.text := $b$
DECLARE
    r ALIAS FOR new;
BEGIN
    INSERT INTO %1$s (relid, id) VALUES (TG_RELID, %2$s);
    %3$s
    RETURN NULL;
END$b$;
    of_statement CONSTANT pg_catalog.text := $b$
BEGIN
    INSERT INTO %1$s (relid, id) SELECT TG_RELID, %2$s FROM new_rows AS r;
    IF FOUND THEN
        %3$s
    END IF;
    RETURN NULL;
END$b$;
    ids CONSTANT pg_catalog.text[] := regexp_split_to_array(trim(current_setting('twinbloom.id')), ' *, *');
    watched CONSTANT pg_catalog.text[] := ids
        || array_remove(regexp_split_to_array(trim(current_setting('twinbloom.columns')), ' *, *'), '');
    s record;
    o record;
    word pg_catalog.text;
    expression pg_catalog.text;
    wake pg_catalog.text := 'NULL;';
    functions pg_catalog.text[]; -- for a row, and where there is one for a statement
BEGIN
    IF current_setting('lock_timeout') = '0' THEN -- a table that waits for a lock has its writers wait
        PERFORM set_config('lock_timeout', '10s', true);
    END IF;
    SELECT c.relkind, c.relowner::regrole AS owner,
           c.relkind = 'p' OR c.relispartition
               OR EXISTS (SELECT FROM pg_catalog.pg_subscription_rel r WHERE r.srrelid = c.oid) AS by_row
      INTO s FROM pg_catalog.pg_class c WHERE c.oid = source;
    SELECT c.relname, quote_ident(n.nspname) AS schema, format('%I.%I', n.nspname, c.relname) AS name, c.reltype AS type,
           c.relkind = 'r' AND 3 = (
               SELECT count(*) FROM pg_catalog.pg_attribute a
                WHERE a.attrelid = c.oid AND (a.attname, a.atttypid::regtype) IN
                      (('seq', 'bigint'::regtype), ('relid', 'oid'::regtype), ('id', 'text'::regtype))) AS is_outbox
      INTO o FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = outbox;

    -- Refuse before anything is granted or made.
    IF s.relkind NOT IN ('r', 'p') THEN
        RAISE EXCEPTION '% is neither a table nor a partitioned table', source;
    ELSIF NOT o.is_outbox THEN
        RAISE EXCEPTION '% is a table of another kind: name the outbox otherwise', outbox;
    ELSIF octet_length(o.relname) > 40 THEN
        RAISE EXCEPTION 'the name of the outbox has more than 40 bytes';
    END IF;
    FOREACH word IN ARRAY watched LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                        WHERE a.attrelid = source AND a.attname = word AND a.attnum > 0 AND NOT a.attisdropped) THEN
            RAISE EXCEPTION 'table % has no column "%"', source, word;
        ELSIF word = ANY (ids) AND NOT (SELECT a.attnotnull FROM pg_catalog.pg_attribute a
                                         WHERE a.attrelid = source AND a.attname = word) THEN
            RAISE EXCEPTION 'id column "%" of table % may be NULL', word, source;
        END IF;
    END LOOP;
    FOREACH word IN ARRAY ARRAY['_insert', '_update'] LOOP
        IF EXISTS (SELECT FROM pg_catalog.pg_trigger t
                    WHERE t.tgrelid = source AND t.tgname = o.relname || word AND t.tgfoid NOT IN (
                          SELECT u.tgfoid FROM pg_catalog.pg_trigger u JOIN pg_catalog.pg_depend d ON d.objid = u.oid
                           WHERE d.classid = 'pg_catalog.pg_trigger'::regclass
                             AND d.refclassid = 'pg_catalog.pg_type'::regclass AND d.refobjid = o.type)) THEN
            RAISE EXCEPTION 'table % has another trigger "%": name the outbox otherwise', source, o.relname || word;
        END IF;
    END LOOP;

    SELECT string_agg(CASE WHEN a.atttypid = ANY (never_escaped) THEN format('concat(r.%I)', i.name)
                           ELSE format(escaped, format('concat(r.%I)', i.name)) END, $t$ || E'\t' || $t$ ORDER BY i.place),
           CASE WHEN bool_and(a.atttypid = ANY (no_settings)) THEN '' ELSE settings END
      INTO expression, settings
      FROM unnest(ids) WITH ORDINALITY AS i (name, place)
      JOIN pg_catalog.pg_attribute a ON a.attrelid = source AND a.attname = i.name;
    IF current_setting('twinbloom.notify')::boolean THEN
        wake := format('PERFORM pg_notify(%L, %L);', 'twinbloom', o.name); -- sent once, at the commit
    END IF;

    -- A function is named after what it does, so it is the same one for all tables for which it does the same.
    FOREACH word IN ARRAY CASE WHEN s.by_row THEN ARRAY[of_row] ELSE ARRAY[of_row, of_statement] END LOOP
        word := format(definition, settings, format(word, o.name, expression, wake));
        functions := functions || format('%s.%I', o.schema, o.relname || '_' || left(md5(word), 12));
        EXECUTE format('CREATE OR REPLACE FUNCTION %s%s', functions[cardinality(functions)], word);
        EXECUTE format('REVOKE ALL ON FUNCTION %s() FROM PUBLIC', functions[cardinality(functions)]);
        -- for whoever attaches a partition, and so makes the triggers of its parent there
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s() TO %s', functions[cardinality(functions)], s.owner);
    END LOOP;
    EXECUTE format('CREATE OR REPLACE TRIGGER %I AFTER INSERT ON %s %s WHEN (NULL::%s IS NULL) EXECUTE FUNCTION %s()',
                   o.relname || '_insert', source,
                   CASE WHEN s.by_row THEN 'FOR EACH ROW' ELSE 'REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT' END,
                   o.name, functions[cardinality(functions)]);
    EXECUTE format('CREATE OR REPLACE TRIGGER %I AFTER UPDATE ON %s FOR EACH ROW '
                   'WHEN (NULL::%s IS NULL AND pg_catalog.record_image_ne(ROW(%s), ROW(%s))) EXECUTE FUNCTION %s()',
                   o.relname || '_update', source, o.name,
                   (SELECT string_agg(format('old.%I', w), ', ') FROM unnest(watched) AS w),
                   (SELECT string_agg(format('new.%I', w), ', ') FROM unnest(watched) AS w), functions[1]);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I, ENABLE ALWAYS TRIGGER %I',
                   source, o.relname || '_insert', o.relname || '_update');
    EXECUTE format('GRANT SELECT, DELETE ON %s TO %I', o.name, current_setting('twinbloom.reader'));
    PERFORM set_config('search_path', path, true);
END
$install$;
