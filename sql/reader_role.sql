-- For the DBA: the role that Twinbloom connects as, with nothing that it does not need. It reads, and writes nothing.
-- `columns`: the id columns, the key's, those that `where` names, and the system columns ctid and xmin (rows that
-- were written during a build are found, and told from older ones, by them). For a further table repeat the last two GRANTs of it.
-- `replication`: REPLICATION where a filter follows its table by logical replication, else NOREPLICATION.
-- pg_read_all_stats may be left out. Without it Twinbloom cannot say which session or query it waits for,
-- waits for autovacuum as if it wrote rows, and does not know how far standbys are behind.
-- Then \password twinbloom_reader, and a line of pg_hba.conf; where row-level security hides rows also ALTER ROLE ... BYPASSRLS.
-- psql -v role=twinbloom_reader -v replication=NOREPLICATION -v database=app -v schema=public -v table=short_link -v columns='id, code, deleted_at, ctid, xmin' -f reader_role.sql
CREATE ROLE :"role" LOGIN :replication;
GRANT CONNECT ON DATABASE :"database" TO :"role";
GRANT pg_read_all_stats TO :"role";
GRANT USAGE ON SCHEMA :"schema" TO :"role";
GRANT SELECT (:columns) ON :"schema".:table TO :"role";
