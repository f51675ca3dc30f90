// SPDX-License-Identifier: MIT
// usage: java ShortLinks.java create [--length N] URL...     prints a new code and its URL, for each URL
//        java ShortLinks.java find CODE...                   prints the code and its URL, or 404
//
//   TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
//   DATABASE_URL    the database with the table short_link, postgresql://...
//
// A code is random and has N letters (7). Exit status 75: Twinbloom did not acknowledge the add in time. That link was
// not created; try again later. Needs Java 17, Jedis and the JDBC driver of Postgres on the class path.

import java.net.URI;
import java.security.SecureRandom;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.exceptions.JedisException;

public final class ShortLinks {
    static final String FILTER = "short-link";
    static final String LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static final int ATTEMPTS = 100; // codes that are tried for one URL
    static final int PATIENCE = 5000; // ms in which an add must be acknowledged
    static final int ANSWER = 2000; // ms for one answer; a web server would wait for less
    static final int TRY_LATER = 75; // EX_TEMPFAIL
    static final String UNIQUE_VIOLATION = "23505";
    static final SecureRandom RANDOM = new SecureRandom();

    /** Twinbloom did not acknowledge the add, so the row must not be committed. */
    static final class NotAcknowledged extends Exception {
        NotAcknowledged(Throwable cause) {
            super("Twinbloom did not acknowledge the add: " + cause.getMessage(), cause);
        }
    }

    final Connection db;
    final JedisPooled bloom;

    ShortLinks(Connection db, JedisPooled bloom) {
        this.db = db;
        this.bloom = bloom;
    }

    /** False: certainly absent. True: maybe present, or Twinbloom gave no answer, so the table must be asked. */
    boolean maybePresent(String code) {
        try {
            return bloom.bfExists(FILTER, code);
        } catch (JedisException e) {
            return true;
        }
    }

    /** The URL of the code, from the table; empty if there is no such row. */
    Optional<String> lookUp(String code) throws SQLException {
        try (PreparedStatement query = db.prepareStatement("SELECT url FROM short_link WHERE code = ?")) {
            query.setString(1, code);
            ResultSet rows = query.executeQuery();
            return rows.next() ? Optional.of(rows.getString(1)) : Optional.empty();
        }
    }

    /**
     * The URL, or empty for 404. Only codes that may be present cost a query.
     * "Absent" may be trusted because every writer adds inside its transaction, as create() does. If a follower adds
     * the rows instead (follow = yes), a new row is absent until the follower has it: README.md says what to do then.
     */
    Optional<String> find(String code) throws SQLException {
        return maybePresent(code) ? lookUp(code) : Optional.empty();
    }

    /** Add until Twinbloom acknowledges it. An unacknowledged add may have happened; adding again does no harm. */
    void add(String code) throws NotAcknowledged, InterruptedException {
        long until = System.nanoTime() + PATIENCE * 1_000_000L;
        for (long pause = 50;; pause = Math.min(2 * pause, 1000)) {
            try {
                bloom.bfAdd(FILTER, code);
                return;
            } catch (JedisException e) {
                if (System.nanoTime() + pause * 1_000_000L > until) {
                    throw new NotAcknowledged(e);
                }
            }
            Thread.sleep(pause);
        }
    }

    /** One transaction, with the add inside. False: the code is taken. */
    boolean insert(String code, String url) throws SQLException, NotAcknowledged, InterruptedException {
        db.setAutoCommit(false);
        try (PreparedStatement row = db.prepareStatement("INSERT INTO short_link (code, url) VALUES (?, ?)")) {
            row.setString(1, code);
            row.setString(2, url);
            row.executeUpdate();
            add(code);
            db.commit();
            return true;
        } catch (SQLException e) {
            db.rollback();
            if (UNIQUE_VIOLATION.equals(e.getSQLState())) {
                return false;
            }
            throw e;
        } catch (NotAcknowledged e) {
            db.rollback();
            throw e;
        } finally {
            db.setAutoCommit(true);
        }
    }

    String create(String url, int length) throws SQLException, NotAcknowledged, InterruptedException {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            String code = RANDOM.ints(length, 0, LETTERS.length())
                .mapToObj(i -> LETTERS.substring(i, i + 1)).collect(Collectors.joining());
            if (maybePresent(code) && lookUp(code).isPresent()) {
                continue;
            }
            if (insert(code, url)) {
                return code;
            }
            // The code has a row, but if the filter denies it, its writer did not add it.
            if (!maybePresent(code)) {
                add(code);
            }
        }
        throw new IllegalStateException(ATTEMPTS + " codes of " + length + " letters were taken; use longer codes");
    }

    /** @url: postgresql://[user[:password]@]host[:port]/database */
    static Connection connect(URI url) throws SQLException {
        String[] user = url.getUserInfo() == null ? new String[0] : url.getUserInfo().split(":", 2);
        return DriverManager.getConnection(
            "jdbc:postgresql://" + url.getHost() + ":" + (url.getPort() < 0 ? 5432 : url.getPort()) + url.getPath(),
            user.length > 0 ? user[0] : null, user.length > 1 ? user[1] : null);
    }

    public static void main(String[] arguments) {
        List<String> rest = Arrays.asList(arguments);
        String command = rest.isEmpty() ? "" : rest.get(0);
        int length = 7;
        if (command.equals("create") && rest.size() > 2 && rest.get(1).equals("--length")) {
            length = Integer.parseInt(rest.get(2));
            rest = rest.subList(2, rest.size());
        }
        if (!List.of("create", "find").contains(command) || rest.size() < 2 || length < 1) {
            System.err.println("usage: java ShortLinks.java create [--length N] URL... | find CODE...");
            System.exit(2);
        }
        try (Connection db = connect(URI.create(System.getenv("DATABASE_URL")));
             JedisPooled bloom = new JedisPooled(URI.create(System.getenv("TWINBLOOM_URL")), ANSWER)) {
            ShortLinks links = new ShortLinks(db, bloom);
            for (String argument : rest.subList(1, rest.size())) {
                System.out.println(command.equals("create")
                    ? links.create(argument, length) + "\t" + argument
                    : argument + "\t" + links.find(argument).orElse("404"));
            }
        } catch (NotAcknowledged e) {
            System.err.println("short_links: " + e.getMessage());
            System.exit(TRY_LATER);
        } catch (Exception e) {
            System.err.println("short_links: " + e.getMessage());
            System.exit(1);
        }
    }
}
