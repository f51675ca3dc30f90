-- The reference schema: a table of short links, as the examples and tests use it.
-- psql -v table=short_link -f short_link.sql
CREATE TABLE :table (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    code text NOT NULL UNIQUE,
    url text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz
);
