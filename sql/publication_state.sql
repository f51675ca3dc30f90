-- Identifies what a publication sends, to notice that a table was taken out of it and put in again, or that its settings
-- were other ones in between: each such change makes or changes an entry. Needs Postgres 15.
-- psql -v publication=twinbloom -f publication_state.sql
SELECT hashtextextended(concat_ws(' ', p.oid, p.xmin,
           (SELECT string_agg(concat_ws(':', r.oid, r.xmin), ' ' ORDER BY r.oid)
              FROM pg_publication_rel r WHERE r.prpubid = p.oid),
           (SELECT string_agg(concat_ws(':', n.oid, n.xmin), ' ' ORDER BY n.oid)
              FROM pg_publication_namespace n WHERE n.pnpubid = p.oid)), 0)::text AS state
  FROM pg_publication p
 WHERE p.pubname = :'publication';
