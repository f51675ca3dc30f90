-- Reset the session to its initial state, including the role's own search_path, for a connection that is used again.
-- psql -f session_reset.sql
RESET ALL;
