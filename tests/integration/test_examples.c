/* SPDX-License-Identifier: MIT */
/* usage: test_examples PROGRAM ARGUMENT... Runs an example of docs/examples, which creates and finds short
 * links, against a coordinator, two Redis nodes and Postgres: several at once; on codes whose writers died;
 * while Twinbloom or Redis is away; and when Twinbloom is killed halfway. In all cases each link that was
 * printed must have a row, and the filter must not report the code of an example's row absent. Exit status
 * 77: the example's library is missing. */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
    DEADLINE_MS = 120000,
    PROGRAM_MAX = 4,
    AT_ONCE = 4,
    LINKS = 50, /* of one process */
    ARGUMENTS_MAX = PROGRAM_MAX + LINKS + 5,
    TRY_LATER = 75
};

static const char *const *program;
static struct fixture fixture;

/* One run of the example. */
struct run {
    struct process process;
    char urls[LINKS][64];
    char log[PATH_MAX + 32];
};

static int setup(void **state)
{
    (void)state;
    char url[64];
    if (fixture_start(&fixture, &(struct fixture_options){.nodes = 2,
                                                          .daemons = 1,
                                                          .postgres = true,
                                                          .rows = 200,
                                                          .capacity = 100000,
                                                          .rate = "0.000001"}) != 0)
        return -1;
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", fixture.daemon[0].port);
    return setenv("TWINBLOOM_URL", url, 1) == 0 && setenv("DATABASE_URL", fixture.postgres.dsn, 1) == 0 ? 0
                                                                                                        : -1;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* Have the example create links for @count URLs whose names begin with @name. */
static void begin(struct run *r, const char *name, const char *length, size_t count)
{
    const char *argv[ARGUMENTS_MAX + 1] = {NULL};
    struct error e = {""};
    size_t n = 0;
    for (; n < PROGRAM_MAX && program[n] != NULL; n++)
        argv[n] = program[n];
    argv[n++] = "create";
    argv[n++] = "--length";
    argv[n++] = length;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(r->urls[i], sizeof(r->urls[i]), "https://example.org/%s/%zu", name, i);
        argv[n++] = r->urls[i];
    }
    (void)snprintf(r->log, sizeof(r->log), "%s/%s.log", fixture.daemon[0].directory, name);
    must(process_start(&r->process, argv, r->log, &e), e);
}

/* Wait for the end of the example. Returns its exit status. */
static int end(struct run *r)
{
    struct error e = {""};
    if (process_wait(&r->process, DEADLINE_MS, &e) != ERR_OK) {
        process_kill(&r->process);
        process_show_log(&r->process, "the example");
        fail_msg("it did not end: %s", e.text);
    }
    int status = process_exit_status(&r->process);
    if (status != 0 && status != TRY_LATER)
        process_show_log(&r->process, "the example");
    return status;
}

static int64_t count_rows(const char *condition)
{
    char sql[256];
    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM short_link WHERE %s", condition);
    PGresult *r = PQexec(fixture.db, sql);
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(fixture.db));
    int64_t count = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return count;
}

/* Whether the filter has @code. Repeats the request until it gets an answer, as a node may just be back. */
static int64_t is_present(const char *code)
{
    uint64_t until = clock_mono_us() + 60000000;
    struct error e = {""};
    int64_t present = 0;
    while (client_integer(&fixture.client[0], &present, &e, "BF.EXISTS " FILTER " %s", code) != ERR_OK) {
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
        clock_sleep_us(50000);
    }
    return present;
}

/* How many codes of the rows that meet @condition the filter has. */
static int64_t count_present(const char *condition)
{
    char sql[256];
    int64_t present = 0;
    (void)snprintf(sql, sizeof(sql), "SELECT code FROM short_link WHERE %s", condition);
    PGresult *r = PQexec(fixture.db, sql);
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    for (int i = 0; i < PQntuples(r); i++)
        present += is_present(PQgetvalue(r, i, 0));
    PQclear(r);
    return present;
}

/* Each line "code URL" of @r has its row. Returns how many there are. */
static size_t check_printed(struct run *r)
{
    char *output = process_log(&r->process), *rest = NULL;
    size_t lines = 0;
    for (char *line = strtok_r(output, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *url = strchr(line, '\t');
        if (url == NULL)
            continue; /* a line of standard error */
        *url++ = '\0';
        const char *values[] = {line, url};
        PGresult *rows = PQexecParams(fixture.db, "SELECT 1 FROM short_link WHERE code = $1 AND url = $2", 2,
                                      NULL, values, NULL, NULL, 0);
        if (PQntuples(rows) != 1)
            fail_msg("'%s' was printed for %s, and there is no such row", line, url);
        PQclear(rows);
        lines++;
    }
    free(output);
    return lines;
}

/* All rows of examples must have their keys in the filter. */
static void check_made(void)
{
    const char *made = "url LIKE 'https://example.org/%/%'";
    assert_int_equal(count_present(made), count_rows(made));
}

/* The output of the example for @code: its URL, or "404". The caller frees it. */
static char *find(const char *code)
{
    static unsigned runs;
    const char *argv[PROGRAM_MAX + 3] = {NULL};
    struct run r = {0};
    struct error e = {""};
    size_t n = 0, length = strlen(code);
    for (; n < PROGRAM_MAX && program[n] != NULL; n++)
        argv[n] = program[n];
    argv[n++] = "find";
    argv[n] = code;
    (void)snprintf(r.log, sizeof(r.log), "%s/find-%u.log", fixture.daemon[0].directory, runs++);
    must(process_start(&r.process, argv, r.log, &e), e);
    assert_int_equal(end(&r), 0);
    char *output = process_log(&r.process);
    output[strcspn(output, "\n")] = '\0';
    if (strncmp(output, code, length) != 0 || output[length] != '\t')
        fail_msg("not a line of '%s': %s", code, output);
    memmove(output, output + length + 1, strlen(output + length + 1) + 1);
    return output;
}

static void must_find(const char *code, const char *url)
{
    char *found = find(code);
    assert_string_equal(found, url);
    free(found);
}

/* If the example's library is missing, skip the tests. */
static void test_example__can_run_here(void **state)
{
    (void)state;
    static const char *const lacks[] = {"ModuleNotFoundError",
                                        "Cannot find module",
                                        "Class \"Redis\" not found",
                                        "cannot load such file",
                                        "command not found",
                                        "cannot find package",
                                        NULL};
    struct run r = {0};
    begin(&r, "first", "8", 1);
    int status = end(&r);
    char *output = process_log(&r.process);
    bool lacking = false;
    for (size_t i = 0; status != 0 && lacks[i] != NULL; i++)
        lacking = lacking || strstr(output, lacks[i]) != NULL;
    free(output);
    if (lacking) {
        (void)fixture_stop(&fixture);
        exit(77);
    }
    assert_int_equal(status, 0);
    assert_int_equal(check_printed(&r), 1);
    check_made();
}

/* The filter has "there" and "gone", which has no row. The row "denied" was never added, which no example
 * does: that the example does not find it shows that it did not query the table. */
static void test_example__finds_links(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t added = 0;
    fixture_sql(fixture.db, "INSERT INTO short_link (code, url) VALUES ('there', 'https://example.org/'), "
                            "('denied', 'https://example.org/denied')");
    must(client_integer(&fixture.client[0], &added, &e, "BF.ADD " FILTER " there"), e);
    must(client_integer(&fixture.client[0], &added, &e, "BF.ADD " FILTER " gone"), e);
    must_find("there", "https://example.org/");
    must_find("gone", "404");
    must_find("nosuch", "404");
    must_find("denied", "404");
}

static void test_examples__create_links_at_once_without_a_duplicate(void **state)
{
    (void)state;
    static struct run runs[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "many-%zu", i);
        begin(&runs[i], name, "2",
              LINKS); /* so short that codes collide with each other and with existing rows */
    }
    for (size_t i = 0; i < AT_ONCE; i++) {
        assert_int_equal(end(&runs[i]), 0);
        assert_int_equal(check_printed(&runs[i]), LINKS);
    }
    assert_int_equal(count_rows("url LIKE 'https://example.org/many-%'"), AT_ONCE * LINKS);
    check_made();
    fixture_all_present(&fixture, 0, 0, 200);
}

static void test_example__adds_codes_whose_writer_had_not(void **state)
{
    (void)state;
    static struct run r;
    fixture_sql(fixture.db, "INSERT INTO short_link (code, url) SELECT chr(ascii('a') + n), 'orphan' FROM "
                            "generate_series(0, 25) n UNION ALL SELECT chr(ascii('A') + n), 'orphan' FROM "
                            "generate_series(0, 18) n");
    assert_int_equal(count_present("url = 'orphan'"), 0);
    begin(&r, "orphans", "1", 12); /* one of 17 free letters */
    assert_int_equal(end(&r), 0);
    assert_int_equal(check_printed(&r), 12);
    assert_true(count_present("url = 'orphan'") > 0);
    check_made();
}

/* Create a link, again and again for a minute, until it succeeds. */
static void create_again(const char *name)
{
    static struct run r;
    uint64_t until = clock_mono_us() + 60000000;
    do {
        r = (struct run){0};
        begin(&r, name, "8", 1);
    } while (end(&r) == TRY_LATER && clock_mono_us() < until);
    assert_int_equal(process_exit_status(&r.process), 0);
    check_made();
}

static void test_example__commits_nothing_while_twinbloom_is_away(void **state)
{
    (void)state;
    struct error e = {""};
    static struct run r;
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    begin(&r, "away", "8", 1);
    assert_int_equal(end(&r), TRY_LATER);
    assert_int_equal(count_rows("url LIKE 'https://example.org/away/%'"), 0);
    /* Without an answer of the filter the table decides. */
    must_find("there", "https://example.org/");
    must_find("denied", "https://example.org/denied");
    must_find("nosuch", "404");
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    create_again("back");
    must_find("denied", "404");
}

static void test_example__commits_nothing_while_redis_is_away(void **state)
{
    (void)state;
    static struct run r;
    process_signal(&fixture.redis[0].process, SIGSTOP);
    process_signal(&fixture.redis[1].process, SIGSTOP);
    begin(&r, "no-redis", "8", 1);
    int status = end(&r);
    must_find("denied", "https://example.org/denied");
    process_signal(&fixture.redis[0].process, SIGCONT);
    process_signal(&fixture.redis[1].process, SIGCONT);
    assert_int_equal(status, TRY_LATER);
    assert_int_equal(count_rows("url LIKE 'https://example.org/no-redis/%'"), 0);
    create_again("redis-back");
}

/* How many links the run has printed. */
static size_t printed(struct run *r)
{
    char *output = process_log(&r->process);
    size_t lines = 0;
    for (const char *p = output; (p = strchr(p, '\t')) != NULL; p++)
        lines++;
    free(output);
    return lines;
}

static void test_example__loses_nothing_when_twinbloom_dies_in_the_middle(void **state)
{
    (void)state;
    struct error e = {""};
    static struct run r;
    begin(&r, "middle", "8", LINKS);
    while (printed(&r) < 3 && process_running(&r.process))
        clock_sleep_us(1000);
    daemon_kill(&fixture.daemon[0]);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    int status = end(&r);
    assert_true(status == 0 || status == TRY_LATER);
    size_t lines = check_printed(&r);
    assert_true(lines >= 3);
    assert_true(count_rows("url LIKE 'https://example.org/middle/%'") >= (int64_t)lines);
    check_made();
}

int main(int argc, char **argv)
{
    program = (const char *const *)argv + 1;
    if (argc < 2 || argc > 1 + PROGRAM_MAX) {
        (void)fputs("usage: test_examples PROGRAM ARGUMENT...\n", stderr);
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example__can_run_here),
        cmocka_unit_test(test_example__finds_links),
        cmocka_unit_test(test_examples__create_links_at_once_without_a_duplicate),
        cmocka_unit_test(test_example__adds_codes_whose_writer_had_not),
        cmocka_unit_test(test_example__commits_nothing_while_twinbloom_is_away),
        cmocka_unit_test(test_example__commits_nothing_while_redis_is_away),
        cmocka_unit_test(test_example__loses_nothing_when_twinbloom_dies_in_the_middle),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
