/* SPDX-License-Identifier: MIT */
/* Five lines of configuration are enough: the database, the table, the key. Passwords may be in files. */
#include "tests/integration/fixture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/daemon/daemon_options.h"

enum { WAIT_MS = 30000, ROWS = 20000 };

static struct fixture fixture; /* Redis and Postgres; each test starts its own coordinators */

static int setup(void **state)
{
    (void)state;
    if (fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = 1}) != 0)
        return -1;
    fixture_sql(fixture.db,
                "CREATE TABLE account (nr bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text)");
    fixture_sql(fixture.db,
                "INSERT INTO account (email) SELECT 'user' || n FROM generate_series(1, 20000) n");
    fixture_sql(fixture.db, "CREATE TABLE guest (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text)");
    fixture_sql(fixture.db, "INSERT INTO guest (name) SELECT 'guest' || n FROM generate_series(1, 100) n");
    fixture_sql(fixture.db, "ANALYZE");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

#define ACCOUNT "[filter account]\ntable = account\nkey = email\n"
#define GUEST "[filter guest]\ntable = guest\nkey = name\n"

static struct daemon_options options(const char *filters)
{
    return (struct daemon_options){
        .nodes = fixture.node_list, .dsn = fixture.postgres.dsn, .filters = filters};
}

static void start(struct daemon *d, struct client *c, const char *filters, const char *filter)
{
    struct error e = {""};
    const struct daemon_options o = options(filters);
    must(daemon_start(d, &o, &e), e);
    must(client_open(c, d->port, 20000, &e), e);
    must(client_wait_status(c, filter, "built", "1", WAIT_MS, &e), e);
    /* Else the build's own catch-up would find new rows. */
    must(client_wait_status(c, filter, "job_state", "done", WAIT_MS, &e), e);
}

static int64_t ask(struct client *c, const char *command)
{
    struct error e = {""};
    int64_t n = -1;
    must(client_integer(c, &n, &e, command), e);
    return n;
}

static void test_five_lines__build_answer_and_follow(void **state)
{
    (void)state;
    struct daemon d;
    struct client c;
    struct error e = {""};
    int64_t capacity = 0;
    start(&d, &c, ACCOUNT, "account");
    must(client_status_number(&c, "account", "capacity", &capacity, &e), e);
    assert_int_equal(capacity, ROWS * 13 / 10);
    assert_int_equal(ask(&c, "BF.EXISTS account user1"), 1);
    assert_int_equal(ask(&c, "BF.EXISTS account user20000"), 1);
    assert_int_equal(ask(&c, "BF.EXISTS account somebody-else"), 0);
    fixture_sql(fixture.db, "INSERT INTO account (email) VALUES ('somebody-else')");
    uint64_t until = clock_mono_us() + (uint64_t)WAIT_MS * 1000;
    while (ask(&c, "BF.EXISTS account somebody-else") == 0 && clock_mono_us() < until)
        clock_sleep_us(20000);
    assert_int_equal(ask(&c, "BF.EXISTS account somebody-else"), 1);
    client_close(&c);
    assert_true(daemon_fini(&d));
}

/* Without a follower the log has a warning, and the filter is built nevertheless. */
static void test_five_lines__warn_where_rows_cannot_be_followed(void **state)
{
    (void)state;
    struct daemon d;
    struct client c;
    char *log = NULL;
    start(&d, &c, GUEST, "guest");
    assert_int_equal(ask(&c, "BF.EXISTS guest guest100"), 1);
    assert_int_equal(ask(&c, "BF.EXISTS guest nobody"), 0);
    bool said = false;
    for (unsigned i = 0; i < 1000 && !said; i++) {
        free(log);
        log = process_log(&d.process);
        const char *line = strstr(log, "not followed: the id is no single integer column");
        said = line != NULL && strstr(line, "set follow_by = outbox or logical, or follow = no") != NULL;
        clock_sleep_us(20000);
    }
    if (!said)
        fail_msg("no warning: %s", log);
    free(log);
    client_close(&c);
    assert_true(daemon_fini(&d));
}

/* A table that is missing, or a right, is its own filter's affair, at a start as with a reload. */
static void test_five_lines__start_beside_a_table_that_is_missing(void **state)
{
    (void)state;
    struct daemon d;
    struct client c;
    struct error e = {""};
    start(&d, &c, "[filter later]\ntable = later\nkey = email\n" ACCOUNT, "account");
    assert_int_equal(ask(&c, "BF.EXISTS account nobody"), 0);
    assert_int_equal(ask(&c, "BF.EXISTS later nobody"), 1);
    must(client_wait_status(&c, "later", "postgres",
                            "table later does not exist for this role; correct `table`, or qualify it: "
                            "schema.name (capital letters need double quotes)",
                            WAIT_MS, &e),
         e);
    fixture_sql(fixture.db, "CREATE TABLE later (LIKE account INCLUDING ALL)");
    must(client_wait_status(&c, "later", "built", "1", WAIT_MS, &e), e);
    uint64_t until =
        clock_mono_us() + WAIT_MS * 1000ull; /* workers see the view a moment behind the status */
    while (ask(&c, "BF.EXISTS later nobody") == 1 && clock_mono_us() < until)
        clock_sleep_us(20000);
    assert_int_equal(ask(&c, "BF.EXISTS later nobody"), 0);
    client_close(&c);
    assert_true(daemon_fini(&d));
    fixture_sql(fixture.db, "DROP TABLE later");
}

/* Not that its loss must be accepted: it has a source by now. */
static void says_what_heals_it(struct client *c)
{
    struct client redis;
    struct error e = {""};
    char scope[300];
    must(client_open(&redis, fixture.redis[0].port, 20000, &e), e);
    must(client_ok(&redis, &e, "SET twinbloom:{late}:expansion_flag another:1 PX 5000"),
         e); /* no job begins */
    freeReplyObject(client_command(&redis, "HSET twinbloom:{late}:view degraded 1"));
    for (unsigned i = 0; i < 300; i++) {
        must(client_status(c, "late", "degraded_scope", scope, sizeof(scope), &e), e);
        if (scope[0] != '\0')
            break;
        clock_sleep_us(10000);
    }
    assert_string_equal(scope, "acknowledged keys may be missing: rebuild the filter from its source");
    client_close(&redis);
    must(client_wait_status(c, "late", "degraded", "0", WAIT_MS, &e), e);
}

/* An application may have added keys before somebody configures its filter: rows must not be absent for long.
 */
static void test_five_lines__have_a_filter_built_that_was_there_without_its_table(void **state)
{
    (void)state;
    struct daemon d;
    struct client c;
    struct error e = {""};
    struct daemon_options o = options("");
    int64_t generation = 0;
    must(daemon_start(&d, &o, &e), e);
    must(client_open(&c, d.port, 20000, &e), e);
    must(client_ok(&c, &e, "BF.RESERVE late 0.001 100000"), e); /* with room for the rows */
    assert_int_equal(ask(&c, "BF.ADD late user1"), 1);
    assert_int_equal(ask(&c, "BF.EXISTS late user2"), 0);
    o.filters = "[filter late]\ntable = account\nkey = email\ngrace = 100ms\n";
    must(daemon_rewrite(&d, &o, &e), e);
    must(daemon_reload(&d, &e), e);
    must(client_wait_status(&c, "late", "job_state", "done", WAIT_MS, &e), e);
    assert_int_equal(ask(&c, "BF.EXISTS late user2"), 1);
    assert_int_equal(ask(&c, "BF.EXISTS late user20000"), 1);
    clock_sleep_us(3000000); /* the controller looks once a second */
    must(client_status_number(&c, "late", "generation", &generation, &e), e);
    assert_int_equal(generation, 2);
    says_what_heals_it(&c);
    client_close(&c);
    assert_true(daemon_fini(&d));
}

/* Coordinators start again without the section of a filter whose rebuild is not over. */
static void rebuild_and_take_the_table_away(struct daemon *d, struct client *c, const char *how,
                                            const char *until)
{
    struct error e = {""};
    struct daemon_options o = options(ACCOUNT "grace = 1h\n");
    must(daemon_start(d, &o, &e), e);
    must(client_open(c, d->port, 20000, &e), e);
    must(client_wait_status(c, "account", "built", "1", WAIT_MS, &e), e);
    must(client_wait_status(c, "account", "phase", "STEADY", WAIT_MS, &e), e);
    must(client_ok(c, &e, how), e);
    must(client_wait_status(c, "account", "job_step", until, WAIT_MS, &e), e);
    client_close(c);
    assert_true(daemon_stop(d, WAIT_MS));
    o.filters = "";
    must(daemon_rewrite(d, &o, &e), e);
    must(daemon_launch(d, &e), e);
    must(client_open(c, d->port, 20000, &e), e);
}

static void test_unfinished_rebuild__of_a_filter_without_its_table_can_be_ended(void **state)
{
    static const struct {
        const char *how, *until, *end;
    } cases[] = {{"TB.REBUILD account HOLD", "hold", "TB.ABORT account"},
                 {"TB.REBUILD account", "grace", "TB.FINISH account"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct daemon d;
        struct client c;
        struct error e = {""};
        rebuild_and_take_the_table_away(&d, &c, cases[i].how, cases[i].until);
        must(client_ok(&c, &e, cases[i].end), e);
        must(client_wait_status(&c, "account", "phase", "STEADY", WAIT_MS, &e), e);
        must(client_wait_status(&c, "account", "mutex_owner", "", WAIT_MS, &e), e);
        assert_int_equal(ask(&c, "BF.EXISTS account user20000"), 1);
        client_close(&c);
        assert_true(daemon_fini(&d));
    }
}

/* --- secrets in files --- */

static void keep(const char *path, const char *secret)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(secret, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_password_file__logs_in_and_is_read_again(void **state)
{
    (void)state;
    char redis_file[PATH_MAX + 32], file[PATH_MAX + 32], service[PATH_MAX + 64], redis[PATH_MAX + 64];
    struct daemon d;
    struct client c, node;
    struct error e = {""};
    struct daemon_options o = options("");
    must(client_open(&node, fixture.redis[0].port, 20000, &e), e);
    must(daemon_prepare(&d, &o, &e), e);
    (void)snprintf(redis_file, sizeof(redis_file), "%s/redis", d.directory);
    (void)snprintf(file, sizeof(file), "%s/service", d.directory);
    (void)snprintf(redis, sizeof(redis), "password_file = %s\n", redis_file);
    (void)snprintf(service, sizeof(service), "password_file = %s\n", file);
    keep(redis_file, "s3cret\n");
    keep(file, "first\n");
    o.service = service;
    o.redis = redis;
    must(daemon_rewrite(&d, &o, &e), e);
    must(client_ok(&node, &e, "CONFIG SET requirepass s3cret"), e);
    const char *const words[] = {"first", "second"};
    must(daemon_launch(&d, &e), e);
    for (size_t i = 0; i < 2; i++) {
        must(client_open(&c, d.port, 20000, &e), e);
        assert_int_not_equal(client_ok(&c, &e, "AUTH %s", words[1 - i]), ERR_OK);
        must(client_ok(&c, &e, "AUTH %s", words[i]), e);
        assert_int_equal(ask(&c, i == 0 ? "BF.ADD guests a" : "BF.EXISTS guests a"), 1);
        client_close(&c);
        keep(file, words[1]);
        must(daemon_reload(&d, &e), e);
    }
    must(client_ok(&node, &e, "AUTH s3cret"), e);
    must(client_ok(&node, &e, "CONFIG SET requirepass \"\""), e);
    client_close(&node);
    char *log = process_log(&d.process);
    bool warned = strstr(log, "event=password_file_exposed") != NULL;
    bool told = strstr(log, "s3cret") != NULL || strstr(log, "second") != NULL;
    free(log);
    assert_true(warned && !told);
    assert_true(daemon_fini(&d));
}

static void test_check_config__says_what_was_chosen(void **state)
{
    (void)state;
    static const char *const wanted[] = {"[filter account]\n",
                                         "table      account: 20,00",
                                         "capacity   26,00",
                                         " at the first build: rows x headroom\n",
                                         "id_column  nr: the primary key\n",
                                         "follow     yes, by ids, every 500 ms\n",
                                         "[filter guest]\n",
                                         "table      guest: 100 rows, counted\n",
                                         "capacity   10,000 at the first build: the least with a table\n",
                                         "id_column  id: the primary key\n",
                                         "follow     not possible: the id is no single integer column; set",
                                         ": valid, 2 filters\n"};
    struct daemon d;
    char *output = NULL;
    int status = -1;
    struct error e = {""};
    const struct daemon_options o = options(ACCOUNT GUEST);
    must(daemon_prepare(&d, &o, &e), e);
    must(daemon_run(&d, "--check-config", &output, &status, &e), e);
    const char *at = output;
    for (size_t i = 0; at != NULL && i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        at = strstr(at, wanted[i]);
        if (at == NULL)
            fail_msg("status %d, wanted '%s': %s", status, wanted[i], output);
    }
    assert_int_equal(status, 0);
    free(output);
    assert_true(daemon_fini(&d));
}

/* Else a line of the log would go over whatever connection has the number of standard error. */
static void test_twinbloomd__has_standard_files_where_they_were_closed(void **state)
{
    (void)state;
    static const char *const wrapper[] = {"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh", NULL};
    struct daemon d;
    struct error e = {""};
    const struct daemon_options o = options(ACCOUNT);
    must(daemon_prepare(&d, &o, &e), e);
    d.wrapper = wrapper;
    must(daemon_launch(&d, &e), e);
    for (unsigned fd = 0; fd < 3; fd++) {
        char path[64], file[PATH_MAX] = "";
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)d.process.pid, fd);
        assert_true(readlink(path, file, sizeof(file) - 1) > 0);
        assert_string_equal(file, "/dev/null");
    }
    assert_true(daemon_fini(&d));
}

/* A configuration that was written for later must be whole. */
static void test_twinbloomd__says_that_its_output_was_not_written(void **state)
{
    (void)state;
    static const char *const wishes[] = {"--print-config", "--check-config", "--doctor",
                                         "--describe-commands"};
    struct daemon d;
    struct error e = {""};
    const struct daemon_options o = options(ACCOUNT);
    must(daemon_prepare(&d, &o, &e), e);
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        const char *argv[] = {"/bin/sh",  "-c",      "exec \"$0\" \"$1\" -c \"$2\" > /dev/full",
                              TWINBLOOMD, wishes[i], d.config,
                              NULL};
        char *output = NULL;
        int status = -1;
        must(process_run(argv, 20000, &output, &status, &e), e);
        if (status != 1 || strstr(output, "standard output could not be written") == NULL)
            fail_msg("%s: status %d: %s", wishes[i], status, output);
        free(output);
    }
    assert_true(daemon_fini(&d));
}

/* Fails the test unless --check-config exits with status 2. Returns what it printed; free() it. */
static char *check_dsn(const char *dsn)
{
    struct daemon d;
    char *output = NULL;
    int status = -1;
    struct error e = {""};
    struct daemon_options o = options(ACCOUNT);
    o.dsn = dsn;
    must(daemon_prepare(&d, &o, &e), e);
    must(daemon_run(&d, "--check-config", &output, &status, &e), e);
    assert_int_equal(status, 2);
    assert_true(daemon_fini(&d));
    return output;
}

static void test_check_config__says_once_that_postgres_refuses_and_what_to_check(void **state)
{
    (void)state;
    /* libpq reports the same error for both hosts */
    char *output = check_dsn("postgresql://app@127.0.0.1:1,127.0.0.1:1/app");
    const char *refused = strstr(output, "Connection refused");
    if (refused == NULL || strstr(refused + 1, "Connection refused") != NULL ||
        strstr(output, "; check dsn in [postgres]\n") == NULL)
        fail_msg("%s", output);
    free(output);
}

static void write_dsn(const char *login, const char *database, char dsn[128])
{
    (void)snprintf(dsn, 128, "postgresql://%s@127.0.0.1:%u/%s", login, (unsigned)fixture.postgres.port,
                   database);
}

static bool may_log_in(const char *login)
{
    char dsn[128];
    write_dsn(login, "postgres", dsn);
    PGconn *c = PQconnectdb(dsn);
    bool may = PQstatus(c) == CONNECTION_OK;
    PQfinish(c);
    return may;
}

static void test_check_config__says_that_a_password_is_wrong_or_missing(void **state)
{
    (void)state;
    static const struct {
        const char *login, *database, *check;
    } cases[] = {{"app:wrong", "postgres", "; check the password in [postgres]\n"},
                 {"app", "postgres", "; check the password in [postgres]\n"},
                 {"app:right", "nowhere", "\"nowhere\" does not exist; check dsn in [postgres]\n"}};
    char path[PATH_MAX + 64], dsn[128];
    (void)snprintf(path, sizeof(path), "%s/data/pg_hba.conf", fixture.postgres.directory);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs("host all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n", f);
    assert_int_equal(fclose(f), 0);
    fixture_sql(fixture.db, "CREATE ROLE app LOGIN PASSWORD 'right'");
    fixture_sql(fixture.db, "SELECT pg_reload_conf()"); /* does not wait */
    for (uint64_t until = clock_mono_us() + WAIT_MS * 1000; may_log_in("app"); clock_sleep_us(20000))
        assert_true(clock_mono_us() < until);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_dsn(cases[i].login, cases[i].database, dsn);
        char *output = check_dsn(dsn);
        if (strstr(output, cases[i].check) == NULL)
            fail_msg("%s", output);
        free(output);
    }
}

static void test_twinbloomd__reads_the_packaged_file(void **state)
{
    (void)state;
    const char *argv[] = {TWINBLOOMD, "--print-config", NULL};
    char *output = NULL;
    int status = -1;
    struct error e = {""};
    if (access(DAEMON_CONFIG_FILE, F_OK) == 0)
        skip(); /* the machine has the package installed */
    must(process_run(argv, 20000, &output, &status, &e), e);
    assert_int_equal(status, 2);
    if (strstr(output, "the configuration " DAEMON_CONFIG_FILE " cannot be opened: No such file") == NULL)
        fail_msg("%s", output);
    free(output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five_lines__build_answer_and_follow),
        cmocka_unit_test(test_five_lines__warn_where_rows_cannot_be_followed),
        cmocka_unit_test(test_five_lines__start_beside_a_table_that_is_missing),
        cmocka_unit_test(test_five_lines__have_a_filter_built_that_was_there_without_its_table),
        cmocka_unit_test(test_unfinished_rebuild__of_a_filter_without_its_table_can_be_ended),
        cmocka_unit_test(test_password_file__logs_in_and_is_read_again),
        cmocka_unit_test(test_check_config__says_what_was_chosen),
        cmocka_unit_test(test_twinbloomd__has_standard_files_where_they_were_closed),
        cmocka_unit_test(test_twinbloomd__says_that_its_output_was_not_written),
        cmocka_unit_test(test_check_config__says_once_that_postgres_refuses_and_what_to_check),
        cmocka_unit_test(test_check_config__says_that_a_password_is_wrong_or_missing),
        cmocka_unit_test(test_twinbloomd__reads_the_packaged_file),
    };
    return cmocka_run_group_tests_name("five_lines", tests, setup, teardown);
}
