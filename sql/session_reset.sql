-- Back to the session that the connection began with: the role's own search_path, among all else. For a connection
-- that is used again.
-- psql -f session_reset.sql
RESET ALL;
