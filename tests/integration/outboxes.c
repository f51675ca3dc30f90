/* SPDX-License-Identifier: MIT */
#include "tests/integration/outboxes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "tests/integration/psql.h"

enum { VARIABLES = 6, VARIABLE_SIZE = 256, TIMEOUT_MS = 10000 };

static const char *or_default(const char *given, const char *otherwise)
{
    return given != NULL ? given : otherwise;
}

static char *run(const struct temp_postgres *p, const struct outboxes_setup *s, int *status)
{
    static const char *const names[VARIABLES] = {"table", "id", "columns", "outbox", "reader", "notify"};
    const char *const values[VARIABLES] = {
        s->table,  or_default(s->id, "id"),           or_default(s->columns, "code"),
        s->outbox, or_default(s->reader, "postgres"), or_default(s->notify, "true")};
    char text[VARIABLES][VARIABLE_SIZE];
    const char *variables[PSQL_VARIABLES_MAX] = {NULL};
    for (size_t i = 0; i < VARIABLES; i++) {
        (void)snprintf(text[i], VARIABLE_SIZE, "%s=%s", names[i], values[i]);
        variables[i] = text[i];
    }
    return psql_file(p, "outbox", variables, status);
}

void outboxes_install(const struct temp_postgres *p, const struct outboxes_setup *setup)
{
    int status = -1;
    char *output = run(p, setup, &status);
    if (status != 0)
        fail_msg("outbox.sql for %s: %s", setup->table, output);
    free(output);
}

void outboxes_refuse(const struct temp_postgres *p, const struct outboxes_setup *setup, const char *text)
{
    int status = 0;
    char *output = run(p, setup, &status);
    if (status == 0 || strstr(output, text) == NULL)
        fail_msg("outbox.sql for %s ended with %d: %s; expected: %s", setup->table, status, output, text);
    free(output);
}

void outboxes_drop(const struct temp_postgres *p, const char *outbox)
{
    char text[VARIABLE_SIZE];
    (void)snprintf(text, sizeof(text), "outbox=%s", outbox);
    int status = -1;
    const char *const variables[PSQL_VARIABLES_MAX] = {text};
    char *output = psql_file(p, "outbox_drop", variables, &status);
    if (status != 0)
        fail_msg("outbox_drop.sql for %s: %s", outbox, output);
    free(output);
}

struct outbox *outboxes_open(const struct temp_postgres *p, const char *outbox, const char *table)
{
    struct outbox_options options = {
        .dsn = p->dsn, .outbox = outbox, .table = table, .timeout_ms = TIMEOUT_MS};
    struct outbox *o = NULL;
    struct error e = {0};
    must(outbox_open(&o, &options, &e), &e);
    return o;
}

void outboxes_expect(PGconn *pg, const char *outbox, const char *ids)
{
    char *found = database_value(pg, "SELECT coalesce(string_agg(id, '|' ORDER BY seq), '') FROM %s", outbox);
    assert_string_equal(found, ids);
    free(found);
    database_run(pg, "DELETE FROM %s", outbox);
}

uint64_t outboxes_next(struct outbox *o, const char *ids)
{
    struct feed_batch batch;
    struct error e = {0};
    must(outbox_next(o, &batch, 0, &e), &e);
    struct buffer found = {0};
    for (size_t i = 0; i < batch.count; i++) {
        buffer_puts(&found, i == 0 ? "" : "|");
        buffer_append(&found, batch.rows[i].id, batch.rows[i].length);
    }
    assert_string_equal(buffer_text(&found), ids);
    buffer_fini(&found);
    return batch.mark;
}
