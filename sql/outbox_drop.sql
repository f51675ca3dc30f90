-- For the DBA: takes an outbox away, with what waits in it and with all that outbox.sql made for it, in all tables that
-- write into it.
-- psql -v outbox=twinbloom_outbox -f outbox_drop.sql
SET twinbloom.outbox = :'outbox';

-- The session's search_path is for the name of the outbox alone: see outbox.sql.
DO $drop$
DECLARE
    path CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
    outbox CONSTANT pg_catalog.regclass := pg_catalog.to_regclass(pg_catalog.current_setting('twinbloom.outbox'));
    safe CONSTANT pg_catalog.text := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    o record;
    command pg_catalog.text;
BEGIN
    IF current_setting('lock_timeout') = '0' THEN -- a table that waits for a lock has its writers wait
        PERFORM set_config('lock_timeout', '10s', true);
    END IF;
    IF outbox IS NULL THEN
        RAISE NOTICE 'there is no outbox %', current_setting('twinbloom.outbox');
        PERFORM set_config('search_path', path, true);
        RETURN;
    END IF;
    SELECT c.relname, c.relnamespace, c.reltype AS type,
           c.relkind = 'r' AND 3 = (
               SELECT count(*) FROM pg_catalog.pg_attribute a
                WHERE a.attrelid = c.oid AND (a.attname, a.atttypid::regtype) IN
                      (('seq', 'bigint'::regtype), ('relid', 'oid'::regtype), ('id', 'text'::regtype))) AS is_outbox
      INTO o FROM pg_catalog.pg_class c WHERE c.oid = outbox;
    IF NOT o.is_outbox THEN
        RAISE EXCEPTION '% is no outbox', outbox;
    END IF;
    -- The writers' order: first their table, then the outbox. The triggers of partitions go with those of their parent.
    FOR command IN
        SELECT format('DROP TRIGGER %I ON %s', t.tgname, t.tgrelid::regclass)
          FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_trigger t ON t.oid = d.objid
         WHERE d.classid = 'pg_catalog.pg_trigger'::regclass AND d.refclassid = 'pg_catalog.pg_type'::regclass
           AND d.refobjid = o.type AND t.tgparentid = 0
         UNION ALL
        SELECT format('DROP FUNCTION %s', p.oid::regprocedure)
          FROM pg_catalog.pg_proc p
         WHERE p.pronamespace = o.relnamespace AND p.prorettype = 'trigger'::regtype
           AND left(p.proname, length(o.relname) + 1) = o.relname || '_'
           AND substr(p.proname, length(o.relname) + 2) ~ '^[0-9a-f]{12}$'
    LOOP
        EXECUTE command;
    END LOOP;
    EXECUTE format('DROP TABLE %s', outbox);
    PERFORM set_config('search_path', path, true);
END
$drop$;
