/* SPDX-License-Identifier: MIT */
#include "tests/integration/database.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sql/sql.h"

int database_setup(void **state)
{
    return database_start(state, NULL);
}

int database_start(void **state, const char *settings)
{
    struct temp_postgres *p = calloc(1, sizeof(*p));
    const struct temp_postgres_options options = {.settings = settings};
    struct error e = {0};
    if (p == NULL || temp_postgres_start(p, &options, &e) != ERR_OK) {
        (void)fprintf(stderr, "temporary Postgres: %s\n", e.text);
        free(p);
        return -1;
    }
    *state = p;
    return 0;
}

int database_teardown(void **state)
{
    temp_postgres_fini(*state);
    free(*state);
    return 0;
}

PGconn *database_connect(const struct temp_postgres *p, const char *database, const char *application)
{
    char dsn[256];
    (void)snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u user=postgres dbname=%s application_name=%s",
                   (unsigned)p->port, database, application);
    PGconn *pg = PQconnectdb(dsn);
    if (PQstatus(pg) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(pg));
    database_run(pg, "SET client_min_messages = warning");
    return pg;
}

static PGresult *run(PGconn *pg, const char *format, va_list ap)
{
    char *text;
    if (vasprintf(&text, format, ap) < 0)
        abort();
    PGresult *r = PQexec(pg, text);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(pg));
    free(text);
    return r;
}

void database_run(PGconn *pg, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    PQclear(run(pg, format, ap));
    va_end(ap);
}

char *database_value(PGconn *pg, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    PGresult *r = run(pg, format, ap);
    va_end(ap);
    assert_true(PQntuples(r) > 0);
    char *value = strdup(PQgetvalue(r, 0, 0));
    PQclear(r);
    return value;
}

struct source *database_source(const struct temp_postgres *p, const char *table, const char *where)
{
    struct source_config config = {
        .dsn = p->dsn, .table = table, .id_column = "id", .key = "code", .where = where};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    return s;
}

void database_short_links(PGconn *pg, const char *table, unsigned rows)
{
    struct buffer text = {0};
    struct error e = {0};
    must(sql_render("short_link", SQL_BINDINGS({"table", table}), NULL, &text, &e), &e);
    database_run(pg, "%s", buffer_text(&text));
    buffer_fini(&text);
    database_run(pg,
                 "INSERT INTO %s (id, code, url) OVERRIDING SYSTEM VALUE "
                 "SELECT 3 * n, 'c' || 3 * n, 'https://example.com' FROM generate_series(1, %u) AS n",
                 table, rows);
    database_run(pg, "ANALYZE %s", table);
}

void must(enum err err, const struct error *e)
{
    if (err != ERR_OK)
        fail_msg("%s: %s", error_name(err), e->text);
}
