/* SPDX-License-Identifier: MIT */
/* A statement sends no line for longer than the timeout of [postgres], as few of the rows that it passes over
 * match, or as a sweep finds nothing new. The job waits longer each time, and ends. */
#include "tests/integration/fixture.h"

enum { ROWS = 10, CAPACITY = 1000, BUILT_MS = 120000 };

static struct fixture fixture;

/* To a reader a page takes four times as long as the timeout. */
static const char schema[] =
    "CREATE FUNCTION slow() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN "
    "IF current_setting('application_name') = 'twinbloom reader' THEN PERFORM pg_sleep(0.4); END IF; "
    "RETURN true; END $$";

static void test_job__outlasts_a_statement_that_is_silent(void **state)
{
    (void)state;
    struct error e = {""};
    must(client_wait_status(&fixture.client[0], "short-link", "built", "1", BUILT_MS, &e), e);
    must(client_wait_status(&fixture.client[0], "short-link", "phase", "STEADY", BUILT_MS, &e), e);
    fixture_all_present(&fixture, 0, 0, ROWS);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job__outlasts_a_statement_that_is_silent),
    };
    return fixture_run_tests(&fixture,
                             (&(struct fixture_options){.nodes = 1,
                                                        .daemons = 1,
                                                        .postgres = true,
                                                        .rows = ROWS,
                                                        .capacity = CAPACITY,
                                                        .rate = "0.01",
                                                        .schema = schema,
                                                        .postgres_lines = "timeout = 1s\n",
                                                        .where = "public.slow()"}),
                             tests);
}
