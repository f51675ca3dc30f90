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

/* A statement, its variables for psql, and what psql prints without headers (NULL: some text). */
static const struct row {
    const char *name;
    const char *variables[PSQL_VARIABLES_MAX];
    const char *output;
} rows[] = {
    {"ancestors", {"oid=1259"}, "1259\n"},
    {"backend", {NULL}, NULL},
    {"barrier", {NULL}, NULL},
    {"blocks",
     {"table=link", "key=t.code", "where=t.id <> 6", "blocks=t.ctid >= '(0,0)' AND t.ctid < '(1,0)'",
      "newer=t.id < 12"},
     "c3\nc9\n"},
    {"blocks_newer",
     {"table=link", "key=t.code", "where=t.id <> 6", "blocks=t.ctid >= '(0,0)' AND t.ctid < '(1,0)'",
      "newer=t.id < 12"},
     "c3\nc9\n"},
    {"condition", {"table=link", "where=t.deleted_at IS NULL"}, ""},
    {"current_lsn", {NULL}, NULL},
    {"ending", {"transactions={3}"}, "0\n"},
    {"file", {"name=public.missing"}, "\n"},
    {"find_key", {"table=link", "id=t.id", "key=t.code", "where=true", "wanted=c3", "horizon=0"}, "3|t\n"},
    {"history", {NULL}, NULL},
    {"horizon", {NULL}, NULL},
    {"instant", {NULL}, NULL},
    {"key_type", {"table=link", "key=t.code || '/' || t.url"}, "text\n"},
    {"keys_of",
     {"table=link", "id=t.id", "key=t.code", "where=t.id <> 6", "ids=('3'), ('6'), ('7')"},
     "c3\n"},
    {"last_id", {"table=link", "id=t.id", "descending=t.id DESC"}, "3000\n"},
    {"outbox",
     {"table=link", "id=id", "columns=code, deleted_at", "outbox=waiting", "reader=postgres", "notify=true"},
     ""},
    {"outbox_claim", {"oid=4000000000", "reader=4000000001"}, "\n"},
    {"outbox_delete", {"outbox=waiting", "file=1", "taken={1,2}"}, ""},
    {"outbox_lag", {"outbox=waiting"}, "0\n"},
    {"outbox_listen", {NULL}, ""},
    {"outbox_others", {"oid=4000000000", "reader=4000000001"}, ""},
    {"outbox_read", {"outbox=waiting", "file=1", "taken={3}", "limit=2"}, ""},
    {"outbox_session", {"statement_timeout=20000", "lock_timeout=1000"}, NULL},
    {"outbox_table", {"oid=OID"}, "public.link|f|t|f|t|t|public|postgres|f\n"},
    {"outbox_triggers", {"oid=OID", "outbox=1"}, NULL},
    {"outbox_drop", {"outbox=waiting"}, ""}, /* the statements before use the outbox */
    {"page",
     {"table=link", "id=t.id", "key=t.code", "where=t.id <> 9", "after=(t.id) > ('3')",
      "upto=(t.id) <= ('999')", "limit=2"},
     "6\tc6\n12\tc12\n"},
    {"page_plan",
     {"table=link", "id=t.id", "key=t.code", "where=true", "after=(t.id) > ('3')", "upto=true", "limit=2"},
     NULL},
    {"parts", {"oid=OID"}, NULL},
    {"identity", {"oid=OID", "newest=750"}, NULL},
    {"flushed", {"barrier=0/0"}, NULL},
    {"slot_place", {NULL}, NULL},
    {"server", {NULL}, NULL},
    {"server_life", {NULL}, NULL},
    {"server_start", {NULL}, NULL},
    {"prepared_open", {NULL}, NULL},
    {"prepared_waiting", {"noted={1234/gid}"}, ""},
    {"primary_key", {"oid=OID"}, "t|id\nf|code\n"},
    {"publication", {"publication=links", "table=link (id)"}, ""},
    {"publication_check",
     {"publication=links", "oid=OID", "column=id"},
     "t|t|t|f|f|t|f|links|public.link|id\n"},
    {"publication_state", {"publication=links"}, NULL},
    {"reader_role",
     {"role=reader", "replication=REPLICATION", "database=postgres", "schema=public", "table=link",
      "columns=id, code, ctid, xmin"},
     ""},
    {"replication_check", {NULL}, "f|t|t|postgres|10|10|60000\n"},
    {"replayed",
     {"barrier=0/1000 1 1 00000001 1"},
     "the server has another system identifier than the one of dsn|t\n"},
    {"replication_lag", {NULL}, "0\n"},
    {"resolve", {"table=missing"}, "\n"},
    {"rows_bounded", {"table=link", "where=id <= 30", "bound=5"}, "5\n"},
    {"rows_estimate", {"table=link", "where=true"}, NULL},
    {"rows_known", {"oid=OID"}, NULL},
    {"sample",
     {"table=link", "key=t.code", "where=true", "percent=100", "older=t.id < 6", "limit=9"},
     "c3\n"},
    {"sample_small", {"table=link", "key=t.code", "where=true", "older=t.id < 6", "limit=9"}, "c3\n"},
    {"sequence_cache", {"oid=OID", "column=id"}, "1\n"},
    {"session", {"statement_timeout=60000", "lock_timeout=1000"}, NULL},
    {"session_reset", {NULL}, ""},
    {"settle_open", {NULL}, "f|{}\n"},
    {"settle_waiting", {"noted={3/17@1234}"}, ""},
    {"short_link", {"table=another"}, ""},
    {"slot_drop", {"slot=absent"}, ""},
    {"slot_state", {"slot=absent"}, "f|||f|f|0|0/0|0/0||0\n"},
    {"snapshot_begin", {NULL}, ""},
    {"snapshot_current", {NULL}, NULL},
    {"snapshot_export", {NULL}, NULL},
    {"snapshot_join", {PSQL_BEFORE "BEGIN ISOLATION LEVEL REPEATABLE READ", "name=SNAPSHOT"}, ""},
    {"snapshot_page", {PSQL_BEFORE "BEGIN"}, ""},
    {"snapshot_page_end", {PSQL_BEFORE "BEGIN; SAVEPOINT page"}, ""},
    {"some_ids", {"table=link", "id=t.id", "percent=100"}, NULL},
    {"source_columns", {"oid=OID", "column=code"}, "code|text|t|t\n"},
    {"source_table", {"oid=OID"}, "public.link|t|f|f|t|t|public|postgres|f\n"},
    {"stream_relations", {"oid=OID"}, NULL},
    {"tables_like", {"pattern=l_nk", "schema=pub%"}, "public.link\n"},
    {"transactions", {NULL}, NULL},
    {"unique_index", {"oid=OID", "columns={code}"}, "link_code_key|t|t\n"},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* What only the server knows takes the place of OID and SNAPSHOT. */
static char *run_psql(const struct temp_postgres *p, const struct row *row, const char *oid,
                      const char *snapshot)
{
    const char *variables[PSQL_VARIABLES_MAX];
    for (size_t i = 0; i < PSQL_VARIABLES_MAX; i++) {
        const char *variable = row->variables[i];
        variables[i] = variable == NULL                         ? NULL
                       : strcmp(variable, "oid=OID") == 0       ? oid
                       : strcmp(variable, "name=SNAPSHOT") == 0 ? snapshot
                                                                : variable;
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
        bool joins = strcmp(rows[i].name, "snapshot_join") == 0;
        if (joins)
            database_run(pg, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        char *snapshot = joins ? database_value(pg, "SELECT format('name=%%L', pg_export_snapshot())") : NULL;
        char *output = run_psql(p, &rows[i], oid, snapshot);
        if (joins)
            database_run(pg, "COMMIT");
        if (rows[i].output == NULL ? output[0] == '\0' : strcmp(output, rows[i].output) != 0)
            fail_msg("%s: psql printed \"%s\", not \"%s\"", rows[i].name, output, rows[i].output);
        free(output);
        free(snapshot);
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

/* The plan of the last page, as `page_plan` renders it, must be an index scan without a sort. */
static void expect_index_scan(PGconn *pg, const char *id, const char *after, const char *upto,
                              const char *index)
{
    const struct sql_binding bindings[] = {{"table", "public.scattered"},
                                           {"id", id},
                                           {"key", "t.code::text"},
                                           {"where", "t.kind = 7\n"},
                                           {"after", after},
                                           {"upto", upto},
                                           {"limit", "10000"},
                                           {NULL, NULL}};
    struct buffer text = {0};
    struct error e = {0};
    must(sql_render("page_plan", bindings, NULL, &text, &e), &e);
    PGresult *r = PQexec(pg, buffer_text(&text));
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    const char *plan = PQgetvalue(r, 0, 0);
    if (strstr(plan, "Sort") != NULL || strstr(plan, "Seq Scan") != NULL || strstr(plan, index) == NULL ||
        (after[1] == 't' && strstr(plan, "\"Index Cond\"") == NULL))
        fail_msg("%s after %s, upto %s: %s", id, after, upto, plan);
    PQclear(r);
    buffer_fini(&text);
}

/* Append the text from the first SELECT to the limit, without blanks. */
static void query_of(const char *name, struct buffer *out)
{
    const char *p = strstr(sql_text(name), "SELECT"), *end = strstr(p, ":limit");
    for (; p < end; p++)
        if (strchr(" \n", *p) == NULL)
            buffer_append(out, p, 1);
}

static void test_page_plan__is_that_of_page(void **state)
{
    (void)state;
    struct buffer page = {0}, plan = {0};
    query_of("page", &page);
    query_of("page_plan", &plan);
    assert_string_equal(buffer_text(&plan), buffer_text(&page));
    buffer_fini(&page);
    buffer_fini(&plan);
}

static void test_pages__are_read_by_the_index(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    /* The ids are in random order on disk, which makes a planner consider a sort. The condition has an index
     * of its own. */
    database_run(
        pg, "CREATE TABLE scattered (id uuid PRIMARY KEY, code text, kind int, tenant text, n int);"
            "INSERT INTO scattered SELECT gen_random_uuid(), 'c' || n, n %% 100, md5((n %% 97)::text), n "
            "FROM generate_series(1, 1000000) AS n;"
            "CREATE INDEX ON scattered (kind); CREATE UNIQUE INDEX scattered_pair ON scattered (tenant, n);"
            "ANALYZE scattered");
    struct buffer text = {0};
    struct error e = {0};
    struct sql_values values;
    must(sql_render("session", SQL_BINDINGS({"statement_timeout", "60000"}, {"lock_timeout", "1000"}),
                    &values, &text, &e),
         &e);
    PQclear(PQexecParams(pg, buffer_text(&text), (int)values.count, NULL, values.text, NULL, NULL, 0));
    static const char least[] = "(t.id) > ('00000000-0000-0000-0000-000000000000')";
    static const char most[] = "(t.id) <= ('ffffffff-ffff-ffff-ffff-ffffffffffff')";
    expect_index_scan(pg, "t.id", "true", "true", "scattered_pkey");
    expect_index_scan(pg, "t.id", least, "true", "scattered_pkey");
    expect_index_scan(pg, "t.id", least, most, "scattered_pkey");
    expect_index_scan(pg, "t.id", "true", most, "scattered_pkey");
    expect_index_scan(pg, "t.tenant, t.n", "true", "true", "scattered_pair");
    expect_index_scan(pg, "t.tenant, t.n", "(t.tenant, t.n) > ('1', '5')", "(t.tenant, t.n) <= ('f', '5')",
                      "scattered_pair");
    buffer_fini(&text);
    PQfinish(pg);
}

/* A range of blocks reads these blocks and no others. */
static void test_blocks__are_read_by_their_numbers(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg,
                 "CREATE TABLE piled (id int PRIMARY KEY, code text);"
                 "INSERT INTO piled SELECT n, 'c' || n FROM generate_series(1, 100000) AS n; ANALYZE piled");
    char *plan = database_value(pg, "EXPLAIN (FORMAT JSON) SELECT t.code FROM piled AS t WHERE (t.ctid >= "
                                    "'(10,0)' AND t.ctid < '(20,0)') "
                                    "AND (age(t.xmin) <= age('750'::xid)) AND (true)");
    if (strstr(plan, "Tid Range Scan") == NULL)
        fail_msg("%s", plan);
    free(plan);
    PQfinish(pg);
}

/* Return the plan of the statement in blocks_newer.sql. */
static char *explain_newer(PGconn *pg)
{
    const struct sql_binding bindings[] = {{"table", "heaped"},
                                           {"key", "t.code"},
                                           {"where", "t.code > ''"},
                                           {"blocks", "t.ctid >= '(10,0)' AND t.ctid < '(20,0)'"},
                                           {"newer", "age(t.xmin) <= (SELECT age('750'::xid))"},
                                           {NULL, NULL}};
    struct buffer text = {0}, statement = {0};
    struct error e = {0};
    must(sql_render("blocks_newer", bindings, NULL, &text, &e), &e);
    const char *from = strchr(buffer_text(&text), '('), *to = strrchr(buffer_text(&text), ')');
    buffer_printf(&statement, "EXPLAIN (FORMAT JSON) %.*s", (int)(to - from - 1), from + 1);
    char *plan = database_value(pg, "%s", buffer_text(&statement));
    buffer_fini(&statement);
    buffer_fini(&text);
    return plan;
}

/* The statement looks for rows in these blocks, and fetches the found rows by their place. */
static void test_blocks_newer__fetches_what_it_found_by_its_place(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg, "CREATE TABLE heaped (id int PRIMARY KEY, code text);"
            "INSERT INTO heaped SELECT n, 'c' || n FROM generate_series(1, 100000) AS n; ANALYZE heaped");
    char *plan = explain_newer(pg);
    if (strstr(plan, "Tid Range Scan") == NULL || strstr(plan, "\"Tid Scan\"") == NULL ||
        strstr(plan, "Seq Scan") != NULL)
        fail_msg("%s", plan);
    free(plan);
    PQfinish(pg);
}

/* With a lower wal_level, publications are of no use, and psql would print a warning. */
static int setup(void **state)
{
    return database_start(state, "wal_level = logical\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sql_files__run_in_psql_as_they_are),
        cmocka_unit_test(test_sql_files__are_all_embedded_and_in_this_test),
        cmocka_unit_test(test_page_plan__is_that_of_page),
        cmocka_unit_test(test_pages__are_read_by_the_index),
        cmocka_unit_test(test_blocks__are_read_by_their_numbers),
        cmocka_unit_test(test_blocks_newer__fetches_what_it_found_by_its_place),
    };
    return cmocka_run_group_tests(tests, setup, database_teardown);
}
