-- The file that a relation lies in, as parts.sql tells it; NULL: there is no such relation.
-- psql -v name=public.short_link -f file.sql
SELECT pg_relation_filenode(to_regclass(:'name')) AS file;
