/* SPDX-License-Identifier: MIT */
/* Counts and estimates of rows, and ids that split a table. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "migrate/source/source_internal.h"

enum {
    SMALL_TABLE = 5000,        /* rows; up to this many are counted instead of estimated */
    BLIND_COUNT = 1000 * 1000, /* the same, in a table that was never analysed */
    PART_ROWS = 50 * 1000,     /* rows; the smallest part */
    SAMPLED_IDS = 20 * 1000,
    SAMPLED_ROWS = 30 * 1000, /* rows that ANALYZE samples at the default_statistics_target of 100 */
};

/* --- counts --- */

/* Instead of the source's own condition. */
static const struct sql_binding all_rows[] = {{"where", "true"}, {NULL, NULL}};

static enum err count_rows(struct source *s, unsigned table, bool with_where, uint64_t bound, uint64_t *out,
                           struct error *e)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)bound);
    const struct sql_binding more[] = {{"bound", text}, with_where ? all_rows[1] : all_rows[0], {NULL, NULL}};
    return source_count(s, table, "rows_bounded", more, out, e);
}

/* Find "Plan Rows" of the outermost plan, which precedes those of its children. Inside a string of the plan
 * the quotes would be escaped. */
static enum err planned_rows(struct source *s, unsigned table, bool with_where, uint64_t *out,
                             struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = source_run(s, table, "rows_estimate", with_where ? NULL : all_rows, &r, e);
    if (err != ERR_OK)
        return err;
    static const char label[] = "\"Plan Rows\": ";
    const char *at = strstr(PQgetvalue(r, 0, 0), label);
    const char *digits = at == NULL ? "" : at + strlen(label);
    if (!number_u64(digits, strspn(digits, "0123456789"), out))
        err = error_set(e, ERR_PARSE, "Postgres: EXPLAIN gave no \"Plan Rows\"");
    return err;
}

/* The planner's statistics: sql/rows_known.sql. */
struct known {
    bool rows, columns;
    uint64_t changed;
};

static enum err look_up_known(struct source *s, unsigned table, struct known *out, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = source_run(s, table, "rows_known", SQL_BINDINGS({"oid", s->tables[table].oid}), &r, e);
    if (err != ERR_OK)
        return err;
    out->rows = strcmp(PQgetvalue(r, 0, 0), "t") == 0;
    out->columns = strcmp(PQgetvalue(r, 0, 1), "t") == 0;
    const char *changed = PQgetvalue(r, 0, 2);
    if (!number_u64(changed, strlen(changed), &out->changed))
        out->changed = UINT64_MAX; /* the statistics tell nothing */
    return ERR_OK;
}

/* Without statistics the planner's guess for a condition may be wrong by orders of magnitude. So count as far
 * as the time allows; for a larger table return rather too many rows than too few. */
static enum err blind_rows(struct source *s, unsigned table, struct source_rows *out, struct error *e)
{
    uint64_t counted = 0;
    uint64_t planned = 0;
    enum err err = count_rows(s, table, true, BLIND_COUNT, &counted, e);
    if (err == ERR_OK && counted < BLIND_COUNT) {
        *out = (struct source_rows){.rows = counted, .by = SOURCE_ROWS_COUNTED};
        return ERR_OK;
    }
    if (err != ERR_OK && err != ERR_TIMEOUT)
        return err;
    err = planned_rows(s, table, true, &planned, e);
    if (err == ERR_OK)
        *out = (struct source_rows){.rows = planned > counted ? planned : counted, .by = SOURCE_ROWS_GUESSED};
    return err;
}

static bool has_where(const struct source *s)
{
    return s->config.where != NULL && s->config.where[0] != '\0';
}

uint64_t source_rows_margin(uint64_t rows, uint64_t all, uint64_t changed)
{
    double met = (double)rows, other = all > rows ? (double)(all - rows) : 0;
    double deviation = all > SAMPLED_ROWS ? sqrt(met * other / SAMPLED_ROWS) : 0;
    double margin = 4 * deviation + (double)changed;
    return margin < 9e18 ? (uint64_t)margin : UINT64_MAX;
}

static enum err known_rows(struct source *s, unsigned table, const struct known *known,
                           struct source_rows *out, struct error *e)
{
    uint64_t rows = 0;
    uint64_t all = 0;
    enum err err = planned_rows(s, table, true, &rows, e);
    if (err == ERR_OK && has_where(s))
        err = planned_rows(s, table, false, &all, e);
    if (err != ERR_OK)
        return err;
    *out = (struct source_rows){.rows = rows, .by = SOURCE_ROWS_PLANNED};
    if (!has_where(s))
        all = rows;
    else if (!known->columns)
        out->by = SOURCE_ROWS_GUESSED;
    out->margin = source_rows_margin(rows, all, known->changed);
    return ERR_OK;
}

static enum err look_at_table(struct source *s, unsigned table, struct source_rows *out, struct error *e)
{
    uint64_t rows = 0;
    struct known known = {0};
    *out = (struct source_rows){.by = SOURCE_ROWS_COUNTED};
    enum err err = count_rows(s, table, false, SMALL_TABLE, &rows, e);
    if (err == ERR_OK && rows < SMALL_TABLE)
        return count_rows(s, table, true, SMALL_TABLE, &out->rows, e);
    if (err == ERR_OK)
        err = look_up_known(s, table, &known, e);
    if (err != ERR_OK)
        return err;
    return known.rows ? known_rows(s, table, &known, out, e) : blind_rows(s, table, out, e);
}

enum err source_table_rows(struct source *s, unsigned table, uint64_t *out, struct error *e)
{
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    struct source_rows rows;
    err = look_at_table(s, table, &rows, e);
    if (err == ERR_OK)
        *out = rows.rows;
    return err;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

enum err source_rows_look(struct source *s, struct source_rows *out, struct error *e)
{
    enum err err = source_ready(s, e);
    *out = (struct source_rows){.by = SOURCE_ROWS_COUNTED};
    for (unsigned i = 0; i < s->table_count && err == ERR_OK; i++) {
        struct source_rows of_table;
        err = look_at_table(s, i, &of_table, e);
        if (err != ERR_OK)
            break;
        out->rows = sum(out->rows, of_table.rows);
        out->margin = sum(out->margin, of_table.margin);
        out->by = of_table.by > out->by ? of_table.by : out->by;
    }
    return err;
}

enum err source_rows_estimate(struct source *s, uint64_t *out, struct error *e)
{
    struct source_rows rows;
    enum err err = source_rows_look(s, &rows, e);
    *out = rows.rows;
    return err;
}

/* --- splits --- */

static enum err take_id(const struct source *s, unsigned table, const PGresult *r, int row,
                        char out[SOURCE_ID_MAX], struct error *e)
{
    SCOPED(buffer_fini) struct buffer id = {0};
    source_put_id(&id, r, row, s->id_columns);
    enum err err = ERR_OK;
    if (id.length >= SOURCE_ID_MAX)
        err = error_set(e, ERR_RANGE, "table %s: an id of %zu bytes is longer than the %d that are supported",
                        s->tables[table].name, id.length, SOURCE_ID_MAX - 1);
    else
        (void)snprintf(out, SOURCE_ID_MAX, "%s", buffer_text(&id));
    return err;
}

enum err source_last_id(struct source *s, unsigned table, char out[SOURCE_ID_MAX], struct error *e)
{
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    SCOPED(scope_result) PGresult *r = NULL;
    err = source_run(s, table, "last_id", NULL, &r, e);
    if (err != ERR_OK)
        return err;
    out[0] = '\0';
    if (PQntuples(r) > 0)
        err = take_id(s, table, r, 0, out, e);
    return err;
}

enum err source_split(struct source *s, unsigned table, unsigned parts, char (*ids)[SOURCE_ID_MAX],
                      unsigned *count, struct error *e)
{
    uint64_t rows = 0;
    *count = 0;
    enum err err = source_ready(s, e);
    if (err == ERR_OK)
        err = planned_rows(s, table, true, &rows, e);
    if (err != ERR_OK)
        return err;
    if (parts > rows / PART_ROWS)
        parts = (unsigned)(rows / PART_ROWS);
    if (parts < 2)
        return ERR_OK;
    char percent[32];
    double share = 100.0 * SAMPLED_IDS / (double)rows;
    (void)snprintf(percent, sizeof(percent), "%.6f", share > 100 ? 100 : share);
    SCOPED(scope_result) PGresult *r = NULL;
    err = source_run(s, table, "some_ids", SQL_BINDINGS({"percent", percent}), &r, e);
    if (err != ERR_OK)
        return err;
    int n = PQntuples(r);
    for (unsigned i = 1; i < parts && n >= (int)(4 * parts) && err == ERR_OK; i++) {
        err = take_id(s, table, r, (int)((uint64_t)n * i / parts), ids[*count], e);
        if (err == ERR_OK && (*count == 0 || strcmp(ids[*count], ids[*count - 1]) != 0))
            ++*count;
    }
    return err;
}

static enum err add_part(struct source_part **parts, size_t *count, const struct source_part *part,
                         struct error *e)
{
    struct source_part *more = reallocarray(*parts, *count + 1, sizeof(*more));
    if (more == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    *parts = more;
    more[(*count)++] = *part;
    return ERR_OK;
}

/* Tid range scans exist since Postgres 14; before, each range would read the whole table. */
static bool reads_blocks(const struct source *s, const PGresult *r)
{
    bool may = s->version >= 140000;
    for (int i = 0; i < PQntuples(r) && may; i++)
        may = strcmp(PQgetvalue(r, i, PQfnumber(r, "may_select")), "t") == 0;
    return may;
}

static enum err table_parts(struct source *s, unsigned table, struct source_part **parts, size_t *count,
                            struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = source_run(s, table, "parts", SQL_BINDINGS({"oid", s->tables[table].oid}), &r, e);
    if (err != ERR_OK)
        return err;
    struct source_part part = {.table = table};
    if (!reads_blocks(s, r)) {
        (void)snprintf(part.name, sizeof(part.name), "%s", s->tables[table].name);
        err = add_part(parts, count, &part, e);
    } else {
        for (int i = 0; i < PQntuples(r) && err == ERR_OK; i++) {
            const char *blocks = PQgetvalue(r, i, PQfnumber(r, "blocks"));
            (void)snprintf(part.name, sizeof(part.name), "%s", PQgetvalue(r, i, PQfnumber(r, "name")));
            (void)snprintf(part.file, sizeof(part.file), "%s", PQgetvalue(r, i, PQfnumber(r, "file")));
            err = number_u64(blocks, strlen(blocks), &part.blocks)
                      ? add_part(parts, count, &part, e)
                      : error_set(e, ERR_TIMEOUT, "%s was dropped meanwhile", part.name);
        }
    }
    return err;
}

enum err source_parts(struct source *s, struct source_part **out, size_t *count, struct error *e)
{
    enum err err = source_ready(s, e);
    *out = NULL;
    *count = 0;
    for (unsigned i = 0; i < s->table_count && err == ERR_OK; i++)
        err = table_parts(s, i, out, count, e);
    if (err != ERR_OK) {
        free(*out);
        *out = NULL;
    }
    return err;
}

/* --- one row --- */

/* A parameter that the server compares with a table's key: text, or bytea in its text form. NULL: no
 * memory. */
static char *key_literal(const struct source_table *t, const char *key, size_t length)
{
    if (strcmp(t->key.type, "bytea") != 0)
        return strndup(key, length);
    char *text = malloc(2 * length + 3);
    if (text == NULL)
        return NULL;
    (void)snprintf(text, 3, "\\x");
    for (size_t i = 0; i < length; i++)
        (void)snprintf(text + 2 + 2 * i, 3, "%02x", (unsigned char)key[i]);
    return text;
}

/* ERR_TIMEOUT: the search took too long. */
static enum err find_in(struct source *s, unsigned table, const char *key, size_t length, const char *horizon,
                        enum source_finding *finding, char id[64], struct error *e)
{
    bool text = strcmp(s->tables[table].key.type, "bytea") != 0;
    if (text && memchr(key, '\0', length) != NULL)
        return ERR_TIMEOUT;
    char *wanted = key_literal(&s->tables[table], key, length);
    if (wanted == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err =
        source_run(s, table, "find_key",
                   SQL_BINDINGS({"wanted", wanted}, {"horizon", horizon[0] == '\0' ? "0" : horizon}), &r, e);
    if (err == ERR_OK && PQntuples(r) > 0) { /* judge by the oldest row of the key */
        bool is_new = strcmp(PQgetvalue(r, 0, 1), "t") == 0;
        if (!is_new || *finding != SOURCE_ROW_NEW)
            (void)snprintf(id, 64, "%.63s", PQgetvalue(r, 0, 0));
        *finding = is_new ? SOURCE_ROW_NEW : SOURCE_ROW_OLD;
    }
    free(wanted);
    return err;
}

enum err source_find_key(struct source *s, const char *key, size_t length, const char *horizon,
                         enum source_finding *out, char id[64], struct error *e)
{
    enum err err = source_ready(s, e);
    bool unknown = false;
    *out = SOURCE_ROW_GONE;
    id[0] = '\0';
    for (unsigned i = 0; i < s->table_count && err == ERR_OK && *out != SOURCE_ROW_OLD; i++) {
        err = find_in(s, i, key, length, horizon, out, id, e);
        unknown |= err == ERR_TIMEOUT;
        err = err == ERR_TIMEOUT ? ERR_OK : err;
    }
    if (unknown && *out == SOURCE_ROW_GONE)
        *out = SOURCE_ROW_UNKNOWN;
    return err;
}

enum err source_table_of(struct source *s, uint32_t relid, size_t *table, struct error *e)
{
    char oid[16];
    SCOPED(scope_result) PGresult *r = NULL;
    *table = SIZE_MAX;
    (void)snprintf(oid, sizeof(oid), "%" PRIu32, relid);
    enum err err = source_run(s, 0, "ancestors", SQL_BINDINGS({"oid", oid}), &r, e);
    if (err != ERR_OK)
        return err;
    for (int row = 0; row < PQntuples(r); row++)
        for (size_t i = 0; i < s->table_count; i++)
            if (strcmp(s->tables[i].oid, PQgetvalue(r, row, 0)) == 0)
                *table = i;
    return ERR_OK;
}

enum err source_ending(struct source *s, const char *transactions, uint64_t *out, struct error *e)
{
    return source_count(s, 0, "ending", SQL_BINDINGS({"transactions", transactions}), out, e);
}
