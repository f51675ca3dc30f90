-- Whether a publication sends every row that is inserted into a table or updated in it, with one column. Always one
-- row. Needs Postgres 15. A partitioned table must be published itself, or by an ancestor: publishing its partitions
-- one by one would omit partitions that are added later. An UNLOGGED table may be in a publication FOR ALL TABLES or of
-- a schema, and such a partition in any; none of its rows is sent.
-- psql -v publication=twinbloom -v oid=16384 -v column=id -f publication_check.sql
WITH above AS (
    SELECT c.oid, c.relnamespace
      FROM pg_class c
     WHERE c.oid = :'oid'::oid OR c.oid IN (SELECT a.relid FROM pg_partition_ancestors(:'oid'::oid::regclass) AS a)
), listed AS (
    SELECT r.prpubid, r.prrelid, r.prqual IS NOT NULL AS has_filter,
           NOT coalesce(a.attnum = ANY (r.prattrs), a.attgenerated = '') AS lacks_column
      FROM pg_publication_rel r
      LEFT JOIN pg_attribute a ON a.attrelid = r.prrelid AND a.attname = :'column'
     WHERE r.prrelid IN (SELECT b.oid FROM above b)
        OR r.prrelid IN (SELECT t.relid FROM pg_partition_tree(:'oid'::oid::regclass) AS t)
)
SELECT p.oid IS NOT NULL AS exists,
       coalesce(p.pubinsert AND p.pubupdate, false) AS is_enough,
       coalesce(p.puballtables, false)
           OR EXISTS (SELECT FROM listed l JOIN above b ON b.oid = l.prrelid WHERE l.prpubid = p.oid)
           OR EXISTS (SELECT FROM pg_publication_namespace n JOIN above b ON b.relnamespace = n.pnnspid
                       WHERE n.pnpubid = p.oid) AS has_table,
       EXISTS (SELECT FROM listed l WHERE l.prpubid = p.oid AND l.has_filter) AS has_filter,
       EXISTS (SELECT FROM pg_class u
                WHERE u.relkind = 'r' AND u.relpersistence <> 'p'
                  AND (u.oid = :'oid'::oid
                       OR u.oid IN (SELECT t.relid FROM pg_partition_tree(:'oid'::oid::regclass) AS t))) AS is_unlogged,
       a.attnum IS NOT NULL AS column_exists,
       coalesce(a.attgenerated <> '', false)
           OR EXISTS (SELECT FROM listed l WHERE l.prpubid = p.oid AND l.lacks_column) AS lacks_column,
       quote_ident(:'publication') AS publication,
       format('%I.%I', n.nspname, c.relname) AS "table",
       quote_ident(:'column') AS "column"
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = :'column' AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_publication p ON p.pubname = :'publication'
 WHERE c.oid = :'oid'::oid;
