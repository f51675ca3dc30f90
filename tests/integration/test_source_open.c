/* SPDX-License-Identifier: MIT */
/* The connection of a source: its application name, its timeouts, its rights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "migrate/source/scan.h"
#include "tests/integration/database.h"
#include "tests/integration/rows.h"
#include "tests/lib/proxy.h"

static void test_source_open__shows_no_part_of_the_password(void **state)
{
    const struct temp_postgres *p = *state;
    static const char *const dsns[] = {
        "postgresql://app:hunter2@127.0.0.1:1/app",
        "postgresql://app:x@hunter2@127.0.0.1:1/app",
        "postgresql://app:x/hunter2@127.0.0.1:1/app",
        "postgresql://app:x?hunter2@127.0.0.1:1/app",
        "postgresql://app:x%hunter2@127.0.0.1:1/app",
        "host=127.0.0.1 port=1 password=x hunter2",
        "host=127.0.0.1 port=1 password='hunter2",
        "host=127.0.0.1 port=1 password=hunter2 dbname=hunter2",
        "hunter2",
    };
    (void)p;
    for (size_t i = 0; i < sizeof(dsns) / sizeof(dsns[0]); i++) {
        struct source_config config = {.dsn = dsns[i], .table = "t", .id_column = "id", .key = "code"};
        struct source *s = NULL;
        struct error e = {0};
        enum err err = source_open(&s, &config, 2000, &e);
        if ((err != ERR_UNREACHABLE && err != ERR_CONFIG) || strstr(e.text, "unter2") != NULL ||
            e.text[0] == '\0')
            fail_msg("%s: %s: %s", dsns[i], error_name(err), e.text);
    }
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://postgres:hunter2@127.0.0.1:%u/hunter2", (unsigned)p->port);
    struct source_config config = {.dsn = dsn, .table = "t", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    assert_int_equal(source_open(&s, &config, 2000, &e), ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "database \"***\" does not exist"));
}

/* Open a server that accepts connections and never answers. */
static int open_silent(uint16_t *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, size), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void test_source_open__gives_up_on_a_server_that_does_not_answer(void **state)
{
    (void)state;
    uint16_t port;
    int fd = open_silent(&port);
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://app@127.0.0.1:%u/app", (unsigned)port);
    struct source_config config = {.dsn = dsn, .table = "t", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    uint64_t began = clock_mono_us();
    assert_int_equal(source_open(&s, &config, 300, &e), ERR_TIMEOUT);
    uint64_t took = clock_mono_us() - began;
    assert_true(took >= 300000 && took < 3000000);
    (void)close(fd);
}

/* One server does not answer, as after a failover to the standby. */
static void test_source_open__goes_on_to_the_next_server(void **state)
{
    const struct temp_postgres *p = *state;
    uint16_t silent;
    int fd = open_silent(&silent);
    static const char *const dsns[] = {
        "host=127.0.0.1,127.0.0.1,127.0.0.1 port=%u,%u,%u dbname=postgres user=postgres "
        "target_session_attrs=read-write",
        "postgresql://postgres@127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/"
        "postgres?target_session_attrs=read-write",
        "hostaddr=127.0.0.1,127.0.0.1,127.0.0.1 port=%u,%u,%u dbname=postgres user=postgres"};
    for (size_t i = 0; i < 2 * sizeof(dsns) / sizeof(dsns[0]); i++) {
        char dsn[256];
        unsigned second = i % 2 == 0 ? p->port : silent, third = i % 2 == 0 ? silent : p->port;
        (void)snprintf(dsn, sizeof(dsn), dsns[i / 2], (unsigned)silent, second, third);
        struct source_config config = {.dsn = dsn, .table = "pg_class", .id_column = "oid", .key = "relname"};
        struct source *s = NULL;
        struct error e = {0};
        must(source_open(&s, &config, 1500, &e), &e);
        source_close(s);
    }
    (void)close(fd);
}

/* The server does not answer the cancel request either. */
static void test_source_last_id__times_out_where_the_server_falls_silent(void **state)
{
    const struct temp_postgres *p = *state;
    struct proxy *proxy = NULL;
    struct source *s = NULL;
    struct error e = {0};
    unsigned route;
    uint16_t port;
    char dsn[128], last[SOURCE_ID_MAX];
    must(proxy_start(&proxy, &e), &e);
    must(proxy_add(proxy, WIRE_POSTGRES, p->port, &route, &port, &e), &e);
    (void)snprintf(dsn, sizeof(dsn), "postgresql://postgres@127.0.0.1:%u/postgres", (unsigned)port);
    struct source_config config = {.dsn = dsn, .table = "pg_class", .id_column = "oid", .key = "relname"};
    must(source_open(&s, &config, 300, &e), &e);
    proxy_set(proxy, route, &(struct proxy_fault){.swallow = true});
    uint64_t began = clock_mono_us();
    assert_int_equal(source_last_id(s, 0, last, &e), ERR_TIMEOUT);
    assert_true(clock_mono_us() - began < 5000000);
    assert_int_equal(source_last_id(s, 0, last, &e), ERR_UNREACHABLE);
    source_close(s);
    proxy_lift(proxy); /* the thread of the cancel request ends */
    proxy_stop(proxy);
}

static void test_source_last_id__times_out_behind_a_lock(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg, "CREATE TABLE locked (id bigint PRIMARY KEY, code text); INSERT INTO locked VALUES (7, 'c')");
    struct source_config config = {.dsn = p->dsn, .table = "locked", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    char last[SOURCE_ID_MAX];
    must(source_open(&s, &config, 400, &e), &e);
    database_run(pg, "BEGIN; LOCK TABLE locked");
    assert_int_equal(source_last_id(s, 0, last, &e), ERR_TIMEOUT);
    database_run(pg, "COMMIT");
    must(source_last_id(s, 0, last, &e), &e);
    assert_string_equal(last, "7");
    source_close(s);
    PQfinish(pg);
}

/* A session ends some time after its client has closed the connection. */
static void await_the_end_of_sessions(PGconn *pg)
{
    for (unsigned i = 0, there = 1; there > 0 && i < 1000; i++) {
        char *count =
            database_value(pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'twinbloom'");
        there = (unsigned)strtoul(count, NULL, 10);
        free(count);
        clock_sleep_us(10 * 1000);
    }
}

static void test_source_open__sets_up_a_session_that_is_named_and_cannot_write(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE session (id bigint PRIMARY KEY, code text);"
                     "CREATE FUNCTION public.scribble() RETURNS bool LANGUAGE plpgsql AS "
                     "$$ BEGIN INSERT INTO public.session VALUES (1, 'c'); RETURN true; END $$");
    database_run(pg, "ALTER DATABASE postgres SET idle_session_timeout = '10min'");
    await_the_end_of_sessions(pg);
    struct source *s = database_source(p, "session", "public.scribble()");
    char *there =
        database_value(pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'twinbloom'");
    assert_string_equal(there, "1");
    free(there);
    source_close(s);
    struct source *limits = database_source(
        p, "session",
        "current_setting('transaction_read_only') = 'on' AND current_setting('search_path') = '' "
        "AND current_setting('lock_timeout') = '10s' AND current_setting('statement_timeout') <> '0' "
        "AND current_setting('idle_in_transaction_session_timeout') = '10s' "
        "AND current_setting('idle_session_timeout') = '0' "
        "AND current_setting('client_encoding') = 'UTF8'");
    database_run(pg, "INSERT INTO session VALUES (1, 'c')");
    uint64_t rows = 0;
    struct error e = {0};
    must(source_rows_estimate(limits, &rows, &e), &e);
    assert_int_equal(rows, 1); /* the whole condition holds */
    source_close(limits);
    database_run(pg, "ALTER DATABASE postgres RESET idle_session_timeout");
    PQfinish(pg);
}

/* --- a pooler --- */

enum { POOLED_MAX = 8, FRAME_MAX = 1 << 16 };

/* Each client connects to a session of its own, under another pid, as poolers do. With @shares the statements
 * of all are run by the session of the first. */
struct pooler {
    bool shares;
    int listener;
    uint16_t server;
    struct pollfd client[POOLED_MAX + 1]; /* the last one: the listener */
    int session[POOLED_MAX];
    unsigned count;
    atomic_bool stop;
    pthread_t thread;
    uint8_t frame[FRAME_MAX];
};

/* Pass one message on, unless it ends a session. Returns its type, 0 for the first one of a client; -1: the
 * connection is closed. */
static int pass(struct pooler *p, int from, int to, bool typed)
{
    size_t head = typed ? 5 : 4;
    if (recv(from, p->frame, head, MSG_WAITALL) != (ssize_t)head)
        return -1;
    uint32_t length;
    memcpy(&length, p->frame + head - 4, sizeof(length));
    length = ntohl(length) - 4;
    assert_true(length <= FRAME_MAX - head);
    if (length > 0 && recv(from, p->frame + head, length, MSG_WAITALL) != (ssize_t)length)
        return -1;
    if (typed && p->frame[0] == 'K') /* BackendKeyData: the pid */
        p->frame[5] ^= 0x40;
    if (!typed || p->frame[0] != 'X')
        assert_int_equal(send(to, p->frame, head + length, MSG_NOSIGNAL), head + length);
    return typed ? p->frame[0] : 0;
}

static void pass_reply(struct pooler *p, int from, int to)
{
    int type;
    while ((type = pass(p, from, to, true)) != 'Z')
        assert_true(type >= 0);
}

static void accept_client(struct pooler *p)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(p->server), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(p->count < POOLED_MAX);
    unsigned i = p->count++;
    p->client[i] = (struct pollfd){.fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC), .events = POLLIN};
    p->session[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(p->session[i], (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(pass(p, p->client[i].fd, p->session[i], false), 0);
    pass_reply(p, p->session[i], p->client[i].fd);
}

static void serve_client(struct pooler *p, unsigned i)
{
    int session = p->session[p->shares ? 0 : i], type;
    do
        type = pass(p, p->client[i].fd, session, true);
    while (type >= 0 && type != 'S' && type != 'Q' && type != 'X');
    if (type == 'S' || type == 'Q') {
        pass_reply(p, session, p->client[i].fd);
        return;
    }
    (void)close(p->client[i].fd);
    p->client[i].fd = -1;
}

static void *pool(void *arg)
{
    struct pooler *p = arg;
    while (!atomic_load(&p->stop)) {
        struct pollfd all[POOLED_MAX + 1];
        memcpy(all, p->client, sizeof(all));
        all[p->count] = (struct pollfd){.fd = p->listener, .events = POLLIN};
        if (poll(all, p->count + 1, 20) <= 0)
            continue;
        unsigned count = p->count;
        for (unsigned i = 0; i < count; i++)
            if (all[i].revents != 0)
                serve_client(p, i);
        if (all[count].revents != 0)
            accept_client(p);
    }
    return NULL;
}

static void pooler_stop(struct pooler *p)
{
    atomic_store(&p->stop, true);
    assert_int_equal(pthread_join(p->thread, NULL), 0);
    for (unsigned i = 0; i < p->count; i++) {
        (void)close(p->session[i]);
        if (p->client[i].fd >= 0)
            (void)close(p->client[i].fd);
    }
    (void)close(p->listener);
}

/* The application's statements are run by the same sessions: they must not become read-only. */
static void test_source_open__leaves_the_sessions_of_a_pooler_as_they_are(void **state)
{
    static struct pooler p;
    const struct temp_postgres *server = *state;
    PGconn *pg = database_connect(server, "postgres", "test");
    database_run(pg, "CREATE TABLE pooled (id bigint PRIMARY KEY, code text)");
    for (unsigned shares = 0; shares < 2; shares++) {
        uint16_t port;
        char dsn[160];
        struct source *s = NULL;
        struct error e = {0};
        p = (struct pooler){.shares = shares, .server = server->port};
        p.listener = open_silent(&port);
        assert_int_equal(pthread_create(&p.thread, NULL, pool, &p), 0);
        (void)snprintf(
            dsn, sizeof(dsn),
            "host=127.0.0.1 port=%u user=postgres dbname=postgres sslmode=disable gssencmode=disable",
            (unsigned)port);
        PGconn *application = PQconnectdb(dsn);
        assert_int_equal(PQstatus(application), CONNECTION_OK);
        struct source_config config = {.dsn = dsn, .table = "pooled", .id_column = "id", .key = "code"};
        must(source_open(&s, &config, 10000, &e), &e);
        enum err code = source_check(s, &e);
        char *sets = database_value(application, "SHOW default_transaction_read_only");
        assert_string_equal(sets, "off");
        free(sets);
        if (shares) {
            assert_int_equal(code, ERR_CONFIG);
            assert_non_null(strstr(e.text, "pool_mode = session"));
        } else {
            must(code, &e);
        }
        source_close(s);
        PQfinish(application);
        pooler_stop(&p);
    }
    PQfinish(pg);
}

struct watcher {
    bool counts; /* a busy machine may be slow before */
    unsigned calls;
};

static enum err on_watch(void *arg, struct error *e)
{
    struct watcher *w = arg;
    return w->counts && ++w->calls == 2 ? error_set(e, ERR_CANCELLED, "enough") : ERR_OK;
}

static void expect_connections(PGconn *pg, const char *application, const char *wanted)
{
    char *there = database_value(pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'",
                                 application);
    assert_string_equal(there, wanted);
    free(there);
}

static void test_source_open_another__reads_the_same_tables_with_a_name_and_a_watch_of_its_own(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "twin", 100);
    database_run(pg, "CREATE TABLE twin_2 (id bigint PRIMARY KEY, code text)");
    struct source *s = database_source(p, "twin, twin_2", "id <= 60"), *another = NULL;
    struct error e = {0};
    struct watcher w = {0};
    char last[SOURCE_ID_MAX];
    must(source_open_another(&another, s, NULL, "the twin", (struct source_watch){on_watch, &w}, &e), &e);
    expect_connections(pg, "the twin", "1");
    source_close(s); /* the two sources share nothing */
    assert_int_equal(source_tables(another), 2);
    assert_string_equal(source_table(another, 1), "public.twin_2");
    must(source_check(another, &e), &e);
    struct rows rows = {0};
    (void)rows_between(another, 0, "", "", 7, rows_note, &rows);
    rows_expect(&rows, 3, 60);
    database_run(pg, "BEGIN; LOCK TABLE twin");
    w.counts = true;
    assert_int_equal(source_last_id(another, 0, last, &e), ERR_CANCELLED);
    assert_string_equal(e.text, "enough");
    assert_int_equal(w.calls, 2);
    database_run(pg, "COMMIT");
    source_close(another);
    PQfinish(pg);
}

static void test_source_open_another__refuses_what_was_not_resolved(void **state)
{
    const struct temp_postgres *p = *state;
    struct source *s = database_source(p, "nowhere", NULL), *another = NULL;
    const struct source_watch none = {NULL, NULL};
    struct error e = {0};
    assert_int_equal(source_open_another(&another, s, NULL, "x", none, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "table nowhere does not exist"));
    source_close(s);
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE somewhere (id bigint PRIMARY KEY, code text)");
    s = database_source(p, "somewhere", NULL);
    assert_int_equal(source_open_another(&another, s, "postgresql://x@127.0.0.1:1/x", "x", none, &e),
                     ERR_UNREACHABLE);
    source_close(s);
    PQfinish(pg);
}

/* Every call of a source whose tables do not exist returns that error. */
static void test_source_open__leaves_a_source_that_says_what_is_wrong(void **state)
{
    struct source *s = database_source(*state, "nowhere", NULL);
    struct error e = {0};
    char text[SOURCE_ID_MAX], ids[2][SOURCE_ID_MAX];
    unsigned count;
    size_t parts;
    uint64_t rows;
    bool yes;
    struct source_replay replay;
    struct source_part *list;
    enum source_finding finding;
    const char *const id[] = {"1"};
    struct scan_range range = {.after = ""};
    const struct scan_options o = {.limit = 1, .row = rows_ignore};
    const enum err errs[] = {
        source_check(s, &e),
        source_rows_estimate(s, &rows, &e),
        source_table_rows(s, 0, &rows, &e),
        source_horizon(s, text, &e),
        source_barrier(s, text, &e),
        source_has_replayed(s, "0/1", &replay, &e),
        source_find_key(s, "k", 1, "", &finding, text, &e),
        source_last_id(s, 0, text, &e),
        source_split(s, 0, 2, ids, &count, &e),
        source_parts(s, &list, &parts, &e),
        scan_page(s, &range, &o, &parts, &yes, &e),
        scan_keys_of(s, 0, id, 1, &o, &e),
        scan_sample(s, "", 1, rows_ignore, NULL, &e),
    };
    for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++)
        assert_int_equal(errs[i], ERR_CONFIG);
    assert_int_equal(source_tables(s), 0);
    must(source_warning(s, text, sizeof(text), &e), &e);
    assert_string_equal(text, "");
    source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_open__shows_no_part_of_the_password),
        cmocka_unit_test(test_source_open__gives_up_on_a_server_that_does_not_answer),
        cmocka_unit_test(test_source_open__goes_on_to_the_next_server),
        cmocka_unit_test(test_source_last_id__times_out_where_the_server_falls_silent),
        cmocka_unit_test(test_source_last_id__times_out_behind_a_lock),
        cmocka_unit_test(test_source_open_another__reads_the_same_tables_with_a_name_and_a_watch_of_its_own),
        cmocka_unit_test(test_source_open_another__refuses_what_was_not_resolved),
        cmocka_unit_test(test_source_open__leaves_a_source_that_says_what_is_wrong),
        cmocka_unit_test(test_source_open__sets_up_a_session_that_is_named_and_cannot_write),
        cmocka_unit_test(test_source_open__leaves_the_sessions_of_a_pooler_as_they_are),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
