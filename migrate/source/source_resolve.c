/* SPDX-License-Identifier: MIT */
/* Resolves configured names to tables and columns: first the tables' oids, under the role's own search_path,
 * then the rest under the session's empty one. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/source/result.h"
#include "migrate/source/source_internal.h"

enum {
    SERVER_STATEMENT_TIMEOUT_MS = 24 * 3600 * 1000 /* the server's last resort, if this process vanishes */
};

/* --- the list of tables --- */

/* The next name of a comma-separated list, without blanks around it. Commas in double quotes belong to the
 * name. False: there is none. */
static bool next_name(const char **at, char *out, size_t size, bool *pattern)
{
    const char *p = *at + strspn(*at, " \t\r\n,");
    bool quoted = false;
    size_t n = 0;
    *pattern = false;
    for (; *p != '\0' && (quoted || *p != ','); p++) {
        quoted ^= *p == '"';
        *pattern |= !quoted && (*p == '*' || *p == '?');
        if (n + 1 < size)
            out[n++] = *p;
    }
    while (n > 0 && isspace((unsigned char)out[n - 1]))
        n--;
    out[n] = '\0';
    *at = p;
    return n > 0;
}

bool source_has_pattern(const struct source *s)
{
    char name[SOURCE_NAME_MAX];
    bool pattern = false;
    for (const char *at = s->config.table; !pattern && next_name(&at, name, sizeof(name), &pattern);)
        ;
    return pattern;
}

static enum err add_table(struct source *s, const char *oid, struct error *e)
{
    for (unsigned i = 0; i < s->table_count; i++)
        if (strcmp(s->tables[i].oid, oid) == 0)
            return ERR_OK; /* named twice */
    if (s->table_count == SOURCE_TABLES_MAX)
        return error_set(e, ERR_CONFIG, "`table` stands for more than %d tables", SOURCE_TABLES_MAX);
    struct source_table *more = reallocarray(s->tables, s->table_count + 1, sizeof(*more));
    if (more == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->tables = more;
    struct source_table *t = &more[s->table_count++];
    *t = (struct source_table){.is_table = false};
    (void)snprintf(t->oid, sizeof(t->oid), "%s", oid);
    return ERR_OK;
}

static enum err add_name(struct source *s, const char *name, struct error *e)
{
    char oid[CONNECTION_OID_MAX];
    enum err err = connection_resolve(s->connection, name, oid, e);
    if (err != ERR_OK)
        return error_prefix(e, err, "table %s", name);
    return oid[0] != '\0' ? add_table(s, oid, e)
                          : error_set(e, ERR_CONFIG,
                                      "table %s does not exist for this role; correct `table`, or qualify "
                                      "it: schema.name (capital letters need double quotes)",
                                      name);
}

/* Convert a part of a name for LIKE: quoted text stays as it is, other text becomes lower case; * and ?
 * become % and _. Returns the end of the part: a dot, or the end of the name. */
static const char *to_like(char *out, size_t size, const char *p)
{
    size_t n = 0;
    bool quoted = false;
    for (; *p != '\0' && (quoted || *p != '.') && n + 3 < size; p++) {
        if (*p == '"' && (!quoted || p[1] != '"')) {
            quoted = !quoted;
            continue;
        }
        p += *p == '"'; /* a doubled quote */
        bool wild = !quoted && (*p == '*' || *p == '?');
        if (strchr("%_\\", *p) != NULL)
            out[n++] = '\\';
        out[n++] = wild ? (*p == '*' ? '%' : '_') : quoted ? *p : (char)tolower((unsigned char)*p);
    }
    out[n] = '\0';
    return p;
}

static enum err add_pattern(struct source *s, const char *pattern, struct error *e)
{
    char schema[2 * SOURCE_NAME_MAX] = "", name[2 * SOURCE_NAME_MAX];
    const char *end = to_like(name, sizeof(name), pattern);
    if (*end == '.') {
        memcpy(schema, name, sizeof(schema));
        end = to_like(name, sizeof(name), end + 1);
    }
    if (*end == '.')
        return error_set(e, ERR_CONFIG, "%s has more than a schema and a name; correct `table`", pattern);
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = connection_run(s->connection, "tables_like",
                                  SQL_BINDINGS({"pattern", name}, {"schema", schema}), &r, e);
    if (err != ERR_OK)
        return err;
    if (PQntuples(r) == 0)
        err = error_set(e, ERR_CONFIG, "no table is like %s; correct `table`, or qualify it: schema.pattern",
                        pattern);
    for (int i = 0; i < PQntuples(r) && err == ERR_OK; i++)
        err = add_name(s, PQgetvalue(r, i, 0), e);
    return err;
}

static enum err add_tables(struct source *s, struct error *e)
{
    enum err err = ERR_OK;
    char name[SOURCE_NAME_MAX];
    bool pattern;
    for (const char *at = s->config.table; err == ERR_OK && next_name(&at, name, sizeof(name), &pattern);)
        err = pattern ? add_pattern(s, name, e) : add_name(s, name, e);
    if (err == ERR_OK && s->table_count == 0)
        err = error_set(e, ERR_CONFIG, "`table` names no table");
    return err;
}

/* --- the session --- */

enum err source_set_up(struct source *s, struct error *e)
{
    return connection_set_up(s->connection, "session", SERVER_STATEMENT_TIMEOUT_MS,
                             s->timeout_ms == 0 ? 1 : s->timeout_ms, e);
}

/* --- one table --- */

static enum err read_table(struct source *s, unsigned table, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    struct source_table *t = &s->tables[table];
    enum err err = source_run(s, table, "source_table", SQL_BINDINGS({"oid", t->oid}), &r, e);
    if (err != ERR_OK)
        return err;
    if (PQntuples(r) == 1) {
        result_copy(t->name, sizeof(t->name), r, "name");
        result_copy(t->schema, sizeof(t->schema), r, "schema");
        result_copy(s->role, sizeof(s->role), r, "role");
        t->is_table = result_is_true(r, "is_table");
        t->has_children = result_is_true(r, "has_children");
        t->hides_rows = result_is_true(r, "hides_rows");
        t->may_use_schema = result_is_true(r, "may_use_schema");
        t->may_see_versions = result_is_true(r, "may_see_versions");
        s->is_standby = result_is_true(r, "is_standby");
    } else {
        err = error_set(e, ERR_CONFIG, "a table of `table` was dropped");
    }
    return err;
}

/* out->type "": there is no such column. */
static enum err read_column(struct source *s, unsigned table, const char *name, struct source_column *out,
                            struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = source_run(s, table, "source_columns",
                              SQL_BINDINGS({"oid", s->tables[table].oid}, {"column", name}), &r, e);
    if (err != ERR_OK)
        return err;
    *out = (struct source_column){.type = ""};
    if (PQntuples(r) == 1) {
        result_copy(out->name, sizeof(out->name), r, "name");
        result_copy(out->type, sizeof(out->type), r, "type");
        out->not_null = result_is_true(r, "not_null");
        out->may_select = result_is_true(r, "may_select");
    }
    return ERR_OK;
}

static enum err read_id(struct source *s, unsigned table, struct error *e)
{
    struct source_table *t = &s->tables[table];
    SCOPED(buffer_fini) struct buffer id = {0}, descending = {0};
    enum err err = ERR_OK;
    for (unsigned i = 0; i < s->id_columns && err == ERR_OK; i++) {
        err = read_column(s, table, s->id_column[i], &t->id[i], e);
        if (err == ERR_OK && t->id[i].type[0] == '\0')
            err =
                error_set(e, ERR_CONFIG,
                          "table %s: column \"%s\" does not exist; set `id_column` to a column of the table",
                          t->name, s->id_column[i]);
        buffer_printf(&id, "%st.%s", i == 0 ? "" : ", ", t->id[i].name);
        buffer_printf(&descending, "%st.%s DESC", i == 0 ? "" : ", ", t->id[i].name);
    }
    t->id_piece = strdup(buffer_text(&id));
    t->descending_piece = strdup(buffer_text(&descending));
    return err;
}

/* True for a bare word: it is a column's name, even if there is no such column. */
static bool is_word(const char *text)
{
    const char *p = text;
    while (isalnum((unsigned char)*p) || *p == '_' || (unsigned char)*p >= 0x80)
        p++;
    return *p == '\0';
}

/* Let the server determine the type of an expression. It is followed by a newline, in case it ends with a
 * comment. */
static enum err read_expression(struct source *s, unsigned table, struct error *e)
{
    struct source_table *t = &s->tables[table];
    SCOPED(scope_result) PGresult *r = NULL;
    if (asprintf(&t->key_piece, "(%s\n)", s->config.key) < 0)
        return t->key_piece = NULL, error_set(e, ERR_NOMEM, "out of memory");
    enum err err = source_run(s, table, "key_type", NULL, &r, e);
    if (err != ERR_OK)
        return err == ERR_CONFIG || err == ERR_REFUSED
                   ? error_prefix(e, ERR_CONFIG,
                                  "table %s: `key` is neither a column nor an expression that %s can use "
                                  "(names of other schemas must be qualified)",
                                  t->name, s->role)
                   : err;
    result_copy(t->key.type, sizeof(t->key.type), r, "type");
    (void)snprintf(t->key.name, sizeof(t->key.name), "(an expression)");
    t->key.may_select = true;
    return ERR_OK;
}

static enum err read_key(struct source *s, unsigned table, struct error *e)
{
    struct source_table *t = &s->tables[table];
    enum err err = read_column(s, table, s->config.key, &t->key, e);
    if (err != ERR_OK)
        return err;
    bool column = t->key.type[0] != '\0';
    if (!column && is_word(s->config.key))
        return error_set(
            e, ERR_CONFIG,
            "table %s: column \"%s\" does not exist; set `key` to a column of the table, or to an expression",
            t->name, s->config.key);
    if (!column && (err = read_expression(s, table, e)) != ERR_OK)
        return err;
    const char *cast = strcmp(t->key.type, "bytea") == 0 ? "" : "::text";
    char *piece = NULL;
    int n =
        column ? asprintf(&piece, "t.%s%s", t->key.name, cast) : asprintf(&piece, "%s%s", t->key_piece, cast);
    free(t->key_piece);
    t->key_piece = n < 0 ? NULL : piece;
    return ERR_OK;
}

/* --- the id --- */

/* Remove the quotes from a quoted name, and undouble quotes inside; copy any other name. */
static void unquote(char *out, size_t size, const char *name)
{
    size_t length = strlen(name), n = 0;
    bool quoted = length >= 2 && name[0] == '"' && name[length - 1] == '"';
    size_t end = length - quoted;
    for (size_t i = quoted; i < end && n + 1 < size; i++) {
        if (quoted && name[i] == '"' && i + 1 < end && name[i + 1] == '"')
            i++;
        out[n++] = name[i];
    }
    out[n] = '\0';
}

static enum err read_id_columns(struct source *s, const char *at, struct error *e)
{
    (void)snprintf(s->id_text, sizeof(s->id_text), "%s", at);
    bool pattern;
    char name[SOURCE_NAME_MAX] = "";
    while (next_name(&at, name, sizeof(name), &pattern)) {
        if (s->id_columns == SOURCE_ID_COLUMNS_MAX)
            return error_set(e, ERR_CONFIG, "`id_column` has more than %d columns", SOURCE_ID_COLUMNS_MAX);
        unquote(s->id_column[s->id_columns++], sizeof(s->id_column[0]), name);
    }
    return s->id_columns > 0 ? ERR_OK : error_set(e, ERR_CONFIG, "`id_column` names no column");
}

static enum err no_primary_key(const struct source *s, unsigned table, const PGresult *unique,
                               struct error *e)
{
    const char *name = s->tables[table].name;
    SCOPED(buffer_fini) struct buffer others = {0};
    for (int i = 0; i < PQntuples(unique); i++)
        buffer_printf(&others, "%s%s", i > 0 ? "; or " : "", PQgetvalue(unique, i, 1));
    return others.length > 0
               ? error_set(e, ERR_CONFIG, "table %s has no primary key; add `id_column` = %.200s", name,
                           buffer_text(&others))
               : error_set(e, ERR_CONFIG,
                           "table %s has no primary key, and no unique index of columns that are NOT "
                           "NULL; ALTER TABLE %s ADD PRIMARY KEY (...)",
                           name, name);
}

/* If no id is configured, use the primary key's columns, which must be the same in all tables. */
static enum err find_id(struct source *s, unsigned table, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = source_run(s, table, "primary_key", SQL_BINDINGS({"oid", s->tables[table].oid}), &r, e);
    if (err != ERR_OK)
        return err;
    const char *columns = PQntuples(r) > 0 ? PQgetvalue(r, 0, 1) : "";
    if (PQntuples(r) == 0 || !result_is_true(r, "is_primary"))
        err = no_primary_key(s, table, r, e);
    else if (s->id_columns == 0)
        err = read_id_columns(s, columns, e);
    else if (strcmp(columns, s->id_text) != 0)
        err = error_set(e, ERR_CONFIG,
                        "the primary key of table %s is (%s), that of table %s is (%s); set `id_column` to "
                        "columns that are unique in each",
                        s->tables[table].name, columns, s->tables[0].name, s->id_text);
    return err;
}

/* --- all tables --- */

static enum err resolve_table(struct source *s, unsigned table, struct error *e)
{
    struct source_table *t = &s->tables[table];
    enum err err = read_table(s, table, e);
    if (err == ERR_OK && t->is_table && s->config.id_column[0] == '\0')
        err = find_id(s, table, e);
    if (err == ERR_OK)
        err = read_id(s, table, e);
    if (err == ERR_OK)
        err = read_key(s, table, e);
    if (err == ERR_OK && (t->id_piece == NULL || t->descending_piece == NULL || t->key_piece == NULL))
        err = error_set(e, ERR_NOMEM, "out of memory");
    return err;
}

enum err source_resolve(struct source *s, struct error *e)
{
    const char *where = s->config.where == NULL || s->config.where[0] == '\0' ? "true" : s->config.where;
    s->version = connection_version(s->connection);
    if (asprintf(&s->where_piece, "%s\n", where) < 0) {
        s->where_piece = NULL;
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    bool given = s->config.id_column[0] != '\0';
    enum err err = given ? read_id_columns(s, s->config.id_column, e) : ERR_OK;
    if (err == ERR_OK)
        err = add_tables(s, e);
    if (err == ERR_OK)
        err = source_set_up(s, e);
    for (unsigned i = 0; i < s->table_count && err == ERR_OK; i++)
        err = resolve_table(s, i, e);
    return err;
}

void source_free_tables(struct source *s)
{
    if (atomic_fetch_sub(s->users, 1) > 1)
        return;
    for (unsigned i = 0; i < s->table_count; i++) {
        free(s->tables[i].id_piece);
        free(s->tables[i].descending_piece);
        free(s->tables[i].key_piece);
    }
    free(s->tables);
    free(s->where_piece);
    free(s->users);
}
