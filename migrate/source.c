/* SPDX-License-Identifier: MIT */
#include "migrate/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "migrate/source_internal.h"

enum {
    SMALL_TABLE = 5000,        /* so many rows are counted rather than estimated */
    BLIND_COUNT = 1000 * 1000, /* and so many where the table was never analysed */
    SERVER_STATEMENT_TIMEOUT_MS =
        3600 * 1000, /* the last resort, should this process vanish from the network */
};

static const char *const key_types[] = {"text",     "character varying", "character", "bytea", "uuid",
                                        "smallint", "integer",           "bigint",    NULL};

/* Types whose comparison does not depend on the search_path and whose text form stands for the value exactly.
 */
static const char *const id_types[] = {"smallint",
                                       "integer",
                                       "bigint",
                                       "numeric",
                                       "text",
                                       "character varying",
                                       "character",
                                       "bytea",
                                       "uuid",
                                       "date",
                                       "timestamp without time zone",
                                       "timestamp with time zone",
                                       NULL};

static bool is_one_of(const char *const *list, const char *text)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, text) == 0)
            return true;
    return false;
}

/* Statements. */

struct statement source_statement(const struct source *s, const char *name)
{
    return (struct statement){.name = name, .bindings = s->bindings, .binding_count = SOURCE_BINDINGS};
}

enum err source_run(struct source *s, const char *name, const struct connection_param *params, size_t count,
                    PGresult **out, struct error *e)
{
    struct statement statement = source_statement(s, name);
    for (size_t i = 0; i < count; i++)
        statement.params[i] = params[i];
    statement.param_count = count;
    return connection_run(s->connection, &statement, out, e);
}

enum err source_ready(struct source *s, struct error *e)
{
    return s->resolved ? ERR_OK : error_set(e, ERR_CONFIG, "%s", s->problem.text);
}

static bool is_true(const PGresult *r, const char *column)
{
    return strcmp(PQgetvalue(r, 0, PQfnumber(r, column)), "t") == 0;
}

static void copy_field(char *out, size_t size, const PGresult *r, const char *column)
{
    (void)snprintf(out, size, "%s", PQgetvalue(r, 0, PQfnumber(r, column)));
}

/* Opening. */

static enum err resolve_oid(struct source *s, struct error *e)
{
    PGresult *r;
    const struct connection_param params[] = {{"table", s->config->table}};
    enum err err = source_run(s, "resolve", params, 1, &r, e);
    if (err != ERR_OK)
        return err;
    (void)snprintf(s->oid, sizeof(s->oid), "%s", PQgetvalue(r, 0, 0));
    PQclear(r);
    if (s->oid[0] != '\0')
        return ERR_OK;
    return error_set(e, ERR_CONFIG,
                     "table %s does not exist for this role; correct `table`, or qualify it: schema.name",
                     s->config->table);
}

static enum err set_up_session(struct source *s, unsigned timeout_ms, struct error *e)
{
    char statement_ms[16];
    char lock_ms[16];
    (void)snprintf(statement_ms, sizeof(statement_ms), "%d", (int)SERVER_STATEMENT_TIMEOUT_MS);
    (void)snprintf(lock_ms, sizeof(lock_ms), "%u", timeout_ms == 0 ? 1 : timeout_ms);
    const struct connection_param params[] = {{"statement_timeout", statement_ms}, {"lock_timeout", lock_ms}};
    PGresult *r;
    enum err err = source_run(s, "session", params, 2, &r, e);
    if (err == ERR_OK)
        PQclear(r);
    return err;
}

static enum err read_table(struct source *s, struct error *e)
{
    PGresult *r;
    const struct connection_param params[] = {{"oid", s->oid}};
    enum err err = source_run(s, "source_table", params, 1, &r, e);
    if (err != ERR_OK)
        return err;
    if (PQntuples(r) == 1) {
        copy_field(s->table, sizeof(s->table), r, "name");
        copy_field(s->schema, sizeof(s->schema), r, "schema");
        copy_field(s->role, sizeof(s->role), r, "role");
        s->is_table = is_true(r, "is_table");
        s->has_children = is_true(r, "has_children");
        s->hides_rows = is_true(r, "hides_rows");
        s->may_use_schema = is_true(r, "may_use_schema");
        s->is_standby = is_true(r, "is_standby");
    } else {
        err = error_set(e, ERR_CONFIG, "table %s was dropped", s->config->table);
    }
    PQclear(r);
    return err;
}

static enum err read_column(struct source *s, const char *name, const char *setting,
                            struct source_column *out, struct error *e)
{
    PGresult *r;
    const struct connection_param params[] = {{"oid", s->oid}, {"column", name}};
    enum err err = source_run(s, "source_columns", params, 2, &r, e);
    if (err != ERR_OK)
        return err;
    if (PQntuples(r) == 1) {
        copy_field(out->name, sizeof(out->name), r, "name");
        copy_field(out->type, sizeof(out->type), r, "type");
        out->not_null = is_true(r, "not_null");
        out->may_select = is_true(r, "may_select");
    } else {
        err = error_set(e, ERR_CONFIG,
                        "table %s: column \"%s\" does not exist; set `%s` to a column of the table", s->table,
                        name, setting);
    }
    PQclear(r);
    return err;
}

/* The pieces that stand for the configuration in our statements. A condition ends with a line of its own, so
 * that a comment in it ends there too. */
static enum err bind(struct source *s, struct error *e)
{
    const char *where = s->config->where == NULL || s->config->where[0] == '\0' ? "true" : s->config->where;
    const char *cast = strcmp(s->key.type, "bytea") == 0 ? "" : "::text";
    if (asprintf(&s->where_piece, "%s\n", where) < 0)
        s->where_piece = NULL;
    if (asprintf(&s->key_piece, "t.%s%s", s->key.name, cast) < 0)
        s->key_piece = NULL;
    if (s->where_piece == NULL || s->key_piece == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->bindings[SOURCE_TABLE].text = s->table;
    s->bindings[SOURCE_ID].text = s->config->id_column;
    s->bindings[SOURCE_KEY].text = s->key_piece;
    s->bindings[SOURCE_WHERE].text = s->where_piece;
    return ERR_OK;
}

static enum err resolve(struct source *s, unsigned timeout_ms, struct error *e)
{
    enum err err = resolve_oid(s, e);
    if (err == ERR_OK)
        err = set_up_session(s, timeout_ms, e);
    if (err == ERR_OK)
        err = read_table(s, e);
    if (err == ERR_OK)
        err = read_column(s, s->config->id_column, "id_column", &s->id, e);
    if (err == ERR_OK)
        err = read_column(s, s->config->key, "key", &s->key, e);
    if (err == ERR_OK)
        err = bind(s, e);
    return err;
}

enum err source_open(struct source **out, const struct source_config *config, unsigned timeout_ms,
                     struct error *e)
{
    struct source *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->own = *config;
    s->config = &s->own;
    static const char *const names[SOURCE_BINDINGS] = {
        [SOURCE_TABLE] = "table", [SOURCE_ID] = "id", [SOURCE_KEY] = "key", [SOURCE_WHERE] = "where"};
    for (size_t i = 0; i < SOURCE_BINDINGS; i++)
        s->bindings[i] = (struct sql_binding){.name = names[i], .text = ""};
    const char *application = config->application != NULL ? config->application : "twinbloom";
    enum err err = connection_open(&s->connection, config->dsn, application, timeout_ms, config->watch, e);
    if (err == ERR_OK) {
        err = resolve(s, timeout_ms, &s->problem);
        s->resolved = err == ERR_OK;
        if (err == ERR_CONFIG || err == ERR_REFUSED)
            err = ERR_OK; /* for source_check() to say */
        else if (err != ERR_OK)
            (void)error_set(e, err, "%s", s->problem.text);
    }
    if (err != ERR_OK) {
        source_close(s);
        return err;
    }
    *out = s;
    return ERR_OK;
}

void source_close(struct source *s)
{
    if (s == NULL)
        return;
    connection_close(s->connection);
    free(s->key_piece);
    free(s->where_piece);
    free(s);
}

/* Checks. */

static enum err check_table(const struct source *s, struct error *e)
{
    if (s->is_standby)
        return error_set(
            e, ERR_CONFIG,
            "the server is a standby, which cannot see the open transactions of its primary; connect to the "
            "primary (target_session_attrs=primary in the dsn)");
    if (!s->is_table)
        return error_set(e, ERR_CONFIG, "%s is no table; set `table` to a table or a partitioned table",
                         s->table);
    if (s->has_children)
        return error_set(
            e, ERR_CONFIG,
            "table %s has children by inheritance, whose ids its index does not cover; use partitions, or "
            "a table without children",
            s->table);
    if (!s->may_use_schema)
        return error_set(e, ERR_CONFIG, "schema %s may not be used; GRANT USAGE ON SCHEMA %s TO %s",
                         s->schema, s->schema, s->role);
    if (!s->id.may_select || !s->key.may_select)
        return error_set(e, ERR_CONFIG, "table %s may not be read; GRANT SELECT ON %s TO %s", s->table,
                         s->table, s->role);
    if (s->hides_rows)
        return error_set(
            e, ERR_CONFIG,
            "table %s hides rows by row-level security; ALTER ROLE %s BYPASSRLS, or use a role that has it",
            s->table, s->role);
    return ERR_OK;
}

static enum err check_columns(const struct source *s, struct error *e)
{
    if (!is_one_of(key_types, s->key.type))
        return error_set(
            e, ERR_CONFIG,
            "table %s: key column %s is of type %s; use a column of type text, varchar, char, bytea, uuid "
            "or an integer (a generated column can hold the text)",
            s->table, s->key.name, s->key.type);
    if (!is_one_of(id_types, s->id.type))
        return error_set(
            e, ERR_CONFIG,
            "table %s: id column %s is of type %s; use a column of an integer type, numeric, text, bytea, "
            "uuid, date or timestamp",
            s->table, s->id.name, s->id.type);
    if (!s->id.not_null)
        return error_set(e, ERR_CONFIG,
                         "table %s: column %s may be NULL; ALTER TABLE %s ALTER COLUMN %s SET NOT NULL",
                         s->table, s->id.name, s->table, s->id.name);
    return ERR_OK;
}

static enum err check_index(struct source *s, struct error *e)
{
    PGresult *r;
    const struct connection_param params[] = {{"oid", s->oid}, {"column", s->config->id_column}};
    enum err err = source_run(s, "unique_index", params, 2, &r, e);
    if (err != ERR_OK)
        return err;
    bool suitable = PQntuples(r) > 0 && is_true(r, "is_suitable");
    if (!suitable)
        err = error_set(
            e, ERR_CONFIG,
            "table %s: column \"%s\" has no unique index of its own; CREATE UNIQUE INDEX CONCURRENTLY ON %s "
            "(%s)",
            s->table, s->config->id_column, s->table, s->id.name);
    else if (!is_true(r, "is_valid"))
        err = error_set(e, ERR_CONFIG, "table %s: index %s is not valid; REINDEX INDEX CONCURRENTLY %s",
                        s->table, PQgetvalue(r, 0, PQfnumber(r, "name")),
                        PQgetvalue(r, 0, PQfnumber(r, "name")));
    PQclear(r);
    return err;
}

/* Plan the statement that the condition will stand in: the server is the only judge of SQL. */
static enum err check_where(struct source *s, struct error *e)
{
    PGresult *r;
    enum err err = source_run(s, "rows_estimate", NULL, 0, &r, e);
    if (err == ERR_OK)
        PQclear(r);
    if (err != ERR_CONFIG && err != ERR_REFUSED)
        return err;
    return error_prefix(
        e, ERR_CONFIG,
        "table %s: `where` is no condition that %s can use (names of other schemas must be qualified)",
        s->table, s->role);
}

enum err source_check(struct source *s, struct error *e)
{
    enum err err = source_ready(s, e);
    if (err == ERR_OK)
        err = check_table(s, e);
    if (err == ERR_OK)
        err = check_columns(s, e);
    if (err == ERR_OK)
        err = check_index(s, e);
    if (err == ERR_OK)
        err = check_where(s, e);
    return err;
}

bool source_id_is_integer(const struct source *s)
{
    static const char *const integers[] = {"smallint", "integer", "bigint", NULL};
    return is_one_of(integers, s->id.type);
}

/* Estimates. */

static enum err count_rows(struct source *s, bool with_where, uint64_t bound, uint64_t *out, struct error *e)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)bound);
    struct statement statement = source_statement(s, "rows_bounded");
    struct sql_binding bindings[SOURCE_BINDINGS];
    memcpy(bindings, s->bindings, sizeof(bindings));
    if (!with_where)
        bindings[SOURCE_WHERE].text = "true";
    statement.bindings = bindings;
    statement.params[0] = (struct connection_param){"bound", text};
    statement.param_count = 1;
    PGresult *r;
    enum err err = connection_run(s->connection, &statement, &r, e);
    if (err != ERR_OK)
        return err;
    const char *count = PQgetvalue(r, 0, 0);
    if (!number_u64(count, strlen(count), out))
        err = error_set(e, ERR_PARSE, "Postgres: a count was \"%s\"", count);
    PQclear(r);
    return err;
}

/* "Plan Rows" of the outermost plan, which comes before those of its children. In a string of the plan the
 * quotes would be escaped. */
static enum err planned_rows(struct source *s, uint64_t *out, struct error *e)
{
    PGresult *r;
    enum err err = source_run(s, "rows_estimate", NULL, 0, &r, e);
    if (err != ERR_OK)
        return err;
    static const char label[] = "\"Plan Rows\": ";
    const char *at = strstr(PQgetvalue(r, 0, 0), label);
    const char *digits = at == NULL ? "" : at + strlen(label);
    if (!number_u64(digits, strspn(digits, "0123456789"), out))
        err = error_set(e, ERR_PARSE, "Postgres: EXPLAIN gave no \"Plan Rows\"");
    PQclear(r);
    return err;
}

static enum err is_analysed(struct source *s, bool *out, struct error *e)
{
    PGresult *r;
    const struct connection_param params[] = {{"oid", s->oid}};
    enum err err = source_run(s, "rows_known", params, 1, &r, e);
    if (err != ERR_OK)
        return err;
    *out = strcmp(PQgetvalue(r, 0, 0), "t") == 0;
    PQclear(r);
    return ERR_OK;
}

/* Without statistics the planner's guess at the condition can be wrong by orders of magnitude: count instead,
 * as far as the time allows; where the table is larger than that, rather too many than too few. */
static enum err blind_rows(struct source *s, uint64_t *out, struct error *e)
{
    uint64_t counted = 0;
    uint64_t planned = 0;
    enum err err = count_rows(s, true, BLIND_COUNT, &counted, e);
    if (err == ERR_OK && counted < BLIND_COUNT) {
        *out = counted;
        return ERR_OK;
    }
    if (err != ERR_OK && err != ERR_TIMEOUT)
        return err;
    err = planned_rows(s, &planned, e);
    if (err == ERR_OK)
        *out = planned > counted ? planned : counted;
    return err;
}

enum err source_rows_estimate(struct source *s, uint64_t *out, struct error *e)
{
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    uint64_t rows = 0;
    bool analysed = false;
    err = count_rows(s, false, SMALL_TABLE, &rows, e);
    if (err == ERR_OK && rows < SMALL_TABLE)
        return count_rows(s, true, SMALL_TABLE, out, e);
    if (err == ERR_OK)
        err = is_analysed(s, &analysed, e);
    if (err != ERR_OK)
        return err;
    return analysed ? planned_rows(s, out, e) : blind_rows(s, out, e);
}

enum err source_max_id(struct source *s, char *out, size_t out_size, struct error *e)
{
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    PGresult *r;
    err = source_run(s, "max_id", NULL, 0, &r, e);
    if (err != ERR_OK)
        return err;
    const char *id = PQntuples(r) == 0 ? "" : PQgetvalue(r, 0, 0);
    if (strlen(id) >= out_size)
        err =
            error_set(e, ERR_RANGE, "table %s: an id of %zu bytes is longer than the %zu that are supported",
                      s->table, strlen(id), out_size - 1);
    else
        (void)snprintf(out, out_size, "%s", id);
    PQclear(r);
    return err;
}

enum err source_horizon(struct source *s, char out[24], struct error *e)
{
    enum err err = source_ready(s, e);
    PGresult *r = NULL;
    if (err == ERR_OK)
        err = source_run(s, "horizon", NULL, 0, &r, e);
    if (err == ERR_OK)
        (void)snprintf(out, 24, "%s", PQgetvalue(r, 0, 0));
    PQclear(r);
    return err;
}

/* A parameter that the server compares with the key: text, or bytea as it is written. NULL: there is none. */
static char *key_literal(const struct source *s, const char *key, size_t length)
{
    char *text = NULL;
    if (strcmp(s->key.type, "bytea") != 0)
        return memchr(key, '\0', length) != NULL ? NULL : strndup(key, length);
    text = malloc(2 * length + 3);
    if (text == NULL)
        return NULL;
    (void)snprintf(text, 3, "\\x");
    for (size_t i = 0; i < length; i++)
        (void)snprintf(text + 2 + 2 * i, 3, "%02x", (unsigned char)key[i]);
    return text;
}

static enum source_finding judge(const PGresult *r, char id[64])
{
    if (PQntuples(r) == 0)
        return SOURCE_ROW_GONE;
    (void)snprintf(id, 64, "%.63s", PQgetvalue(r, 0, 0));
    return strcmp(PQgetvalue(r, 0, 1), "t") == 0 ? SOURCE_ROW_NEW : SOURCE_ROW_OLD;
}

enum err source_find_key(struct source *s, const char *key, size_t length, const char *horizon,
                         enum source_finding *out, char id[64], struct error *e)
{
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    *out = SOURCE_ROW_UNKNOWN;
    id[0] = '\0';
    char *wanted = key_literal(s, key, length);
    if (wanted == NULL)
        return ERR_OK;
    const struct connection_param params[] = {{"wanted", wanted},
                                              {"horizon", horizon[0] == '\0' ? "0" : horizon}};
    PGresult *r = NULL;
    err = source_run(s, "find_key", params, 2, &r, e);
    if (err == ERR_OK)
        *out = judge(r, id);
    PQclear(r);
    free(wanted);
    return err == ERR_TIMEOUT ? ERR_OK : err;
}

enum err source_replication_lag(struct source *s, double *seconds, struct error *e)
{
    PGresult *r;
    enum err err = source_run(s, "replication_lag", NULL, 0, &r, e);
    if (err != ERR_OK)
        return err;
    const char *lag = PQgetvalue(r, 0, 0);
    if (!number_double(lag, strlen(lag), seconds))
        err = error_set(e, ERR_PARSE, "Postgres: a replication lag was \"%s\"", lag);
    PQclear(r);
    return err;
}
