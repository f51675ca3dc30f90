-- Say, for the life of the session, that it reads an outbox for a reader: a number that all have who read it for the same
-- filter of the same installation. outbox_others.sql finds the others.
-- psql -v oid=16390 -v reader=4021 -f outbox_claim.sql
SELECT pg_advisory_lock_shared(:'oid'::oid::int8::bit(32)::int4, :'reader'::oid::int8::bit(32)::int4);
