-- The file of a relation, in the form of parts.sql; NULL: there is no such relation.
-- psql -v name=public.short_link -f file.sql
SELECT pg_relation_filenode(to_regclass(:'name')) AS file;
