/* SPDX-License-Identifier: MIT */
/* Every statement of sql/ runs in psql as its comment says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <cmocka.h>

#include "sql/sql.h"
#include "tests/integration/database.h"
#include "tests/integration/psql.h"

/* A statement, variables for psql, and what psql prints without headers (NULL: something). */
static const struct row {
    const char *name;
    const char *variables[PSQL_VARIABLES_MAX];
    const char *output;
} rows[] = {
    {"find_key", {"table=link", "id=id", "key=code", "where=true", "wanted=c3", "horizon=0"}, "3|t\n"},
    {"horizon", {NULL}, NULL},
    {"max_id", {"table=link", "id=id"}, "3000\n"},
    {"outbox",
     {"table=link", "id=id", "columns=code, deleted_at", "outbox=waiting", "reader=postgres", "notify=true"},
     ""},
    {"outbox_delete", {"outbox=waiting", "oid=1", "taken={1,2}"}, ""},
    {"outbox_lag", {"outbox=waiting", "bound=100"}, "0|0\n"},
    {"outbox_listen", {NULL}, ""},
    {"outbox_read", {"outbox=waiting", "taken={3}", "limit=2"}, ""},
    {"outbox_session", {"statement_timeout=20000", "lock_timeout=1000"}, NULL},
    {"outbox_table", {"oid=OID"}, "public.link|f|f|t|t|public|postgres|f\n"},
    {"outbox_triggers", {"oid=OID", "outbox=1"}, "f|public.link\n"},
    {"outbox_drop", {"outbox=waiting"}, ""}, /* what those before it use */
    {"page_first", {"table=link", "id=id", "key=code", "where=true", "limit=2"}, "3|c3\n6|c6\n"},
    {"page_first_upto", {"table=link", "id=id", "key=code", "where=true", "upto=3", "limit=2"}, "3|c3\n"},
    {"page_next",
     {"table=link", "id=id", "key=code", "where=id <> 6", "after=3", "limit=2"},
     "9|c9\n12|c12\n"},
    {"page_next_upto",
     {"table=link", "id=id", "key=code", "where=true", "after=3", "upto=6", "limit=2"},
     "6|c6\n"},
    {"prepared_open", {NULL}, NULL},
    {"prepared_waiting", {"noted={1234/gid}"}, ""},
    {"replication_lag", {NULL}, "0\n"},
    {"resolve", {"table=missing"}, "\n"},
    {"rows_bounded", {"table=link", "where=id <= 30", "bound=5"}, "5\n"},
    {"rows_estimate", {"table=link", "where=true"}, NULL},
    {"rows_known", {"oid=OID"}, "t\n"},
    {"sample", {"table=link", "id=id", "key=code", "where=true", "percent=100", "upto=3", "limit=9"}, "c3\n"},
    {"sample_small", {"table=link", "id=id", "key=code", "where=true", "upto=3", "limit=9"}, "c3\n"},
    {"session", {"statement_timeout=60000", "lock_timeout=1000"}, NULL},
    {"settle_open", {NULL}, "f|{}\n"},
    {"settle_waiting", {"noted={3/17@1234}"}, ""},
    {"short_link", {"table=another"}, ""},
    {"source_columns", {"oid=OID", "column=code"}, "code|text|t|t\n"},
    {"source_table", {"oid=OID"}, "public.link|t|f|f|t|public|postgres|f\n"},
    {"unique_index", {"oid=OID", "column=code"}, "link_code_key|t|t\n"},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static char *run_psql(const struct temp_postgres *p, const struct row *row, const char *oid)
{
    const char *variables[PSQL_VARIABLES_MAX];
    for (size_t i = 0; i < PSQL_VARIABLES_MAX; i++) {
        const char *variable = row->variables[i];
        variables[i] = variable != NULL && strcmp(variable, "oid=OID") == 0 ? oid : variable;
    }
    int status = -1;
    char *output = psql_file(p, row->name, variables, &status);
    if (status != 0)
        fail_msg("%s: psql ended with %d: %s", row->name, status, output);
    return output;
}

static void test_sql_files__run_in_psql_as_they_are(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "link", 1000);
    char *oid = database_value(pg, "SELECT 'oid=' || 'link'::regclass::oid");
    for (size_t i = 0; i < ROWS; i++) {
        char *output = run_psql(p, &rows[i], oid);
        if (rows[i].output == NULL ? output[0] == '\0' : strcmp(output, rows[i].output) != 0)
            fail_msg("%s: psql printed \"%s\", not \"%s\"", rows[i].name, output, rows[i].output);
        free(output);
    }
    free(oid);
    PQfinish(pg);
}

static void test_sql_files__are_all_embedded_and_in_this_test(void **state)
{
    (void)state;
    DIR *directory = opendir(SQL_DIRECTORY);
    assert_non_null(directory);
    size_t files = 0;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".sql") != 0)
            continue;
        files++;
        char name[256];
        (void)snprintf(name, sizeof(name), "%.*s", (int)(length - 4), entry->d_name);
        if (sql_text(name) == NULL)
            fail_msg("%s is not in sql/CMakeLists.txt", entry->d_name);
        size_t i = 0;
        while (i < ROWS && strcmp(rows[i].name, name) != 0)
            i++;
        if (i == ROWS)
            fail_msg("%s has no row in this test", entry->d_name);
    }
    (void)closedir(directory);
    assert_int_equal(files, ROWS);
}

/* The line of a plan that says where the rows come from must be an index scan, with nothing to sort above it.
 */
static void expect_index_scan(PGconn *pg, const char *statement)
{
    PGresult *r = PQexec(pg, statement);
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    bool index = false;
    for (int i = 0; i < PQntuples(r); i++) {
        const char *line = PQgetvalue(r, i, 0);
        if (strstr(line, "Sort") != NULL || strstr(line, "Seq Scan") != NULL)
            fail_msg("%s: %s", statement, line);
        index = index || strstr(line, "Index Scan using scattered_pkey") != NULL;
    }
    assert_true(index);
    PQclear(r);
}

static void test_pages__are_read_by_the_index_under_generic_plans_too(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    /* Ids in no order on disk, the case that makes a planner think of sorting; a condition with an index of
     * its own. */
    database_run(pg, "CREATE TABLE scattered (id uuid PRIMARY KEY, code text, kind int);"
                     "INSERT INTO scattered SELECT gen_random_uuid(), 'c' || n, n %% 100 FROM "
                     "generate_series(1, 1000000) AS n;"
                     "CREATE INDEX ON scattered (kind); ANALYZE scattered");
    struct buffer text = {0};
    struct error e = {0};
    const char *const values[] = {"statement_timeout", "lock_timeout"};
    must(sql_render("session", NULL, 0, values, 2, &text, &e), &e);
    const char *const times[] = {"60000", "1000"};
    PQclear(PQexecParams(pg, buffer_text(&text), 2, NULL, times, NULL, NULL, 0));
    static const char *const names[] = {"page_first", "page_next", "page_next_upto"};
    static const char *const arguments[] = {
        "10000", "'00000000-0000-0000-0000-000000000000', 10000",
        "'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 10000"};
    const char *const params[3][3] = {{"limit"}, {"after", "limit"}, {"after", "upto", "limit"}};
    const struct sql_binding bindings[] = {
        {"table", "public.scattered"}, {"id", "id"}, {"key", "t.code::text"}, {"where", "kind = 7"}};
    for (size_t mode = 0; mode < 2; mode++) {
        database_run(pg, "DEALLOCATE ALL; SET plan_cache_mode = %s",
                     mode == 0 ? "force_generic_plan" : "force_custom_plan");
        for (size_t i = 0; i < 3; i++) {
            buffer_clear(&text);
            must(sql_render(names[i], bindings, 4, params[i], i + 1, &text, &e), &e);
            PGresult *r = PQprepare(pg, names[i], buffer_text(&text), 0, NULL);
            assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
            PQclear(r);
            char explain[256];
            (void)snprintf(explain, sizeof(explain), "EXPLAIN EXECUTE %s (%s)", names[i], arguments[i]);
            expect_index_scan(pg, explain);
        }
    }
    buffer_fini(&text);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sql_files__run_in_psql_as_they_are),
        cmocka_unit_test(test_sql_files__are_all_embedded_and_in_this_test),
        cmocka_unit_test(test_pages__are_read_by_the_index_under_generic_plans_too),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
