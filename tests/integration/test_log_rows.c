/* SPDX-License-Identifier: MIT */
/* A build of a filter that is a log from a real table: the order of hold, S0, settle and scan, and a builder
 * that resumes at the recorded row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "migrate/source/scan.h"
#include "migrate/source/transaction_wait.h"
#include "tests/integration/database.h"
#include "tests/integration/log_builds.h"

enum { ROWS = 3000, PAGE = 200, WAIT_MS = 20000 };

static struct log_process a, b;

static int start(void **state)
{
    return log_start(state) == 0 ? database_setup(state) : -1;
}

static int stop(void **state)
{
    return database_teardown(state) + log_stop(state);
}

static int teardown(void **state)
{
    (void)state;
    log_close(&a);
    log_close(&b);
    return 0;
}

static struct key_hash code(unsigned id)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "c%u", id);
    return hash_key(LOG_SEED, text, (size_t)n);
}

static void put_row(void *arg, const char *key, size_t length)
{
    struct log_process *p = arg;
    if (key != NULL)
        build_put(p->build, 0, hash_key(p->builder->seed, key, length));
}

/* Read up to @pages pages. True: the table has ended. */
static bool read_pages(struct source *s, struct scan_range *range, struct log_process *p, unsigned pages)
{
    const struct scan_options o = {.limit = PAGE, .timeout_ms = WAIT_MS, .row = put_row, .arg = p};
    struct error e = {""};
    size_t rows;
    bool ended = false;
    for (unsigned i = 0; i < pages && !ended; i++) {
        must(scan_page(s, range, &o, &rows, &ended, &e), e);
        must(build_page_end(p->build, 0, &e), e);
    }
    return ended;
}

static bool is_settled(struct transaction_wait *settle)
{
    struct transaction_wait_blocker blocker;
    struct error e = {""};
    size_t waiting;
    bool done;
    must(transaction_wait_poll(settle, &done, &blocker, 1, &waiting, &e), e);
    return done;
}

/* A key is added before S0, and its row is committed later: only the scan can find it. */
static void test_build__of_a_table_has_what_was_not_committed_at_its_start(void **state)
{
    const struct temp_postgres *postgres = *state;
    PGconn *pg = database_connect(postgres, "postgres", "test");
    PGconn *other = database_connect(postgres, "postgres", "other");
    struct key_hash late = code(1), keys[ROWS];
    struct transaction_wait *settle = NULL;
    struct scan_range range = {.after = ""};
    struct buffer recorded = {0};
    struct error e = {""};
    database_short_links(pg, "link", ROWS);
    struct source *s = database_source(postgres, "link", NULL);
    database_run(other, "BEGIN");
    database_run(other, "INSERT INTO link (id, code, url) OVERRIDING SYSTEM VALUE VALUES (1, 'c1', 'x')");
    log_add_hashes(&late, 1);
    log_begin(&a, UINT64_MAX);
    must(transaction_wait_begin(&settle, s, &e), e);
    assert_false(is_settled(settle));
    database_run(other, "COMMIT");
    while (!is_settled(settle))
        ;
    transaction_wait_free(settle);

    assert_false(read_pages(s, &range, &a, 5));
    must(build_checkpoint(a.build, range.after, strlen(range.after), &e), e);
    assert_false(read_pages(s, &range, &a, 3)); /* these pages are not recorded */
    log_close(&a);

    log_open(&b, &log_servers.nodes);
    must(builder_resume(b.builder, &recorded, &e), e);
    assert_false(b.builder->anew);
    log_bits(&b, UINT64_MAX, NULL, NULL);
    range = (struct scan_range){.after = ""};
    (void)snprintf(range.after, sizeof(range.after), "%s", buffer_text(&recorded));
    assert_string_equal(range.after, "2997"); /* row 1, then the ids 3, 6, ... */
    assert_true(read_pages(s, &range, &b, ROWS));
    must(build_cutover(b.build, true, &e), e);

    for (unsigned i = 0; i < ROWS; i++)
        keys[i] = code(3 * (i + 1));
    assert_int_equal(log_missing_hashes(keys, ROWS), 0);
    assert_int_equal(log_missing_hashes(&late, 1), 0);
    buffer_fini(&recorded);
    source_close(s);
    PQfinish(other);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_build__of_a_table_has_what_was_not_committed_at_its_start,
                                        log_setup, teardown),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
