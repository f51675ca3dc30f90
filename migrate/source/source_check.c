/* SPDX-License-Identifier: MIT */
/* Checks that a source can be read page by page, fast and completely; an error names the remedy. */
#include <stdio.h>
#include <string.h>

#include "migrate/source/result.h"
#include "migrate/source/source_internal.h"

static const char *const key_types[] = {"text",     "character varying", "character", "bytea", "uuid",
                                        "smallint", "integer",           "bigint",    NULL};

/* Types whose order does not depend on the search_path and whose text form is exact. */
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

static enum err check_table(const struct source *s, const struct source_table *t, struct error *e)
{
    if (s->is_standby)
        return error_set(
            e, ERR_CONFIG,
            "the server is a standby, which cannot see the open transactions of its primary; connect to the "
            "primary (target_session_attrs=primary in the dsn), and set read_dsn to read from the standby");
    if (!t->is_table)
        return error_set(e, ERR_CONFIG, "%s is not a table; set `table` to a table or a partitioned table",
                         t->name);
    if (t->has_children)
        return error_set(e, ERR_CONFIG,
                         "table %s has children by inheritance, whose ids its index does not cover; use "
                         "partitions, or a table without children",
                         t->name);
    if (!t->may_use_schema)
        return error_set(e, ERR_CONFIG, "schema %s may not be used; GRANT USAGE ON SCHEMA %s TO %s",
                         t->schema, t->schema, s->role);
    bool may = t->key.may_select;
    for (unsigned i = 0; i < s->id_columns; i++)
        may = may && t->id[i].may_select;
    if (!may)
        return error_set(e, ERR_CONFIG, "table %s may not be read; GRANT SELECT ON %s TO %s", t->name,
                         t->name, s->role);
    if (!t->may_see_versions)
        return error_set(e, ERR_CONFIG,
                         "table %s: the role %s may not see which rows are new; GRANT SELECT (ctid, xmin) ON "
                         "%s TO %s, or GRANT SELECT ON the whole table",
                         t->name, s->role, t->name, s->role);
    if (t->hides_rows)
        return error_set(
            e, ERR_CONFIG,
            "table %s hides rows by row-level security; ALTER ROLE %s BYPASSRLS, or use a role that has it",
            t->name, s->role);
    return ERR_OK;
}

static enum err check_columns(const struct source *s, const struct source_table *t, struct error *e)
{
    if (!is_one_of(key_types, t->key.type))
        return error_set(e, ERR_CONFIG,
                         "table %s: key column %s is of type %s; use a column of type text, varchar, char, "
                         "bytea, uuid or an integer (an expression can make a text of it)",
                         t->name, t->key.name, t->key.type);
    for (unsigned i = 0; i < s->id_columns; i++) {
        const struct source_column *c = &t->id[i];
        if (!is_one_of(id_types, c->type))
            return error_set(e, ERR_CONFIG,
                             "table %s: id column %s is of type %s; use a column of an integer type, "
                             "numeric, text, bytea, uuid, date or timestamp",
                             t->name, c->name, c->type);
        if (!c->not_null)
            return error_set(e, ERR_CONFIG,
                             "table %s: column %s may be NULL; ALTER TABLE %s ALTER COLUMN %s SET NOT NULL",
                             t->name, c->name, t->name, c->name);
    }
    return ERR_OK;
}

/* Write the id's columns as an SQL list, or as the text of an array. */
static void put_columns(const struct source *s, const struct source_table *t, bool array, struct buffer *out)
{
    buffer_puts(out, array ? "{" : "");
    for (unsigned i = 0; i < s->id_columns; i++) {
        buffer_puts(out, i > 0 ? ", " : "");
        if (!array) {
            buffer_puts(out, t->id[i].name);
            continue;
        }
        buffer_puts(out, "\"");
        for (const char *p = s->id_column[i]; *p != '\0'; p++)
            buffer_printf(out, "%s%c", *p == '"' || *p == '\\' ? "\\" : "", *p);
        buffer_puts(out, "\"");
    }
    buffer_puts(out, array ? "}" : "");
}

static enum err check_index(struct source *s, unsigned table, struct error *e)
{
    const struct source_table *t = &s->tables[table];
    SCOPED(buffer_fini) struct buffer array = {0}, columns = {0};
    put_columns(s, t, true, &array);
    put_columns(s, t, false, &columns);
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = source_run(s, table, "unique_index",
                              SQL_BINDINGS({"oid", t->oid}, {"columns", buffer_text(&array)}), &r, e);
    if (err == ERR_OK) {
        bool suitable = PQntuples(r) > 0 && result_is_true(r, "is_suitable");
        const char *name = PQntuples(r) > 0 ? result_text(r, "name") : "";
        if (!suitable)
            err = error_set(e, ERR_CONFIG,
                            "table %s: column%s \"%s\" ha%s no unique index of %s own; CREATE UNIQUE INDEX "
                            "CONCURRENTLY ON %s (%s)",
                            t->name, s->id_columns > 1 ? "s" : "",
                            s->id_columns > 1 ? s->id_text : s->id_column[0], s->id_columns > 1 ? "ve" : "s",
                            s->id_columns > 1 ? "their" : "its", t->name, buffer_text(&columns));
        else if (!result_is_true(r, "is_valid"))
            err = error_set(e, ERR_CONFIG, "table %s: index %s is not valid; REINDEX INDEX CONCURRENTLY %s",
                            t->name, name, name);
    }
    return err;
}

/* Plan the statement that will contain the condition: only the server can judge SQL. */
static enum err check_where(struct source *s, unsigned table, struct error *e)
{
    enum err err = source_run(s, table, "condition", NULL, NULL, e);
    if (err == ERR_OK)
        err = source_run(s, table, "rows_estimate", NULL, NULL, e);
    if (err != ERR_CONFIG && err != ERR_REFUSED)
        return err;
    return error_prefix(
        e, ERR_CONFIG,
        "table %s: `where` is not a condition that %s can use (names of other schemas must be qualified)",
        s->tables[table].name, s->role);
}

/* A name in the plan may end with Sort, too. */
static bool sorts(const char *plan)
{
    return strstr(plan, "\"Node Type\": \"Sort\"") != NULL ||
           strstr(plan, "\"Node Type\": \"Incremental Sort\"") != NULL;
}

/* A page must come in index order: sorting all that is left for each page would read the table over and
 * over. */
static enum err check_plan(struct source *s, unsigned table, struct error *e)
{
    char id[SOURCE_ID_MAX];
    SCOPED(buffer_fini) struct buffer after = {0};
    enum err err = source_last_id(s, table, id, e);
    if (err != ERR_OK)
        return err;
    bool empty = id[0] == '\0'; /* a sort of no rows is harmless, but the key may be wrong */
    source_put_bound(&after, &s->tables[table], "<=", id);
    SCOPED(scope_result) PGresult *r = NULL;
    err =
        source_run(s, table, "page_plan",
                   SQL_BINDINGS({"after", buffer_text(&after)}, {"upto", "true"}, {"limit", "10000"}), &r, e);
    if (err == ERR_OK && !empty && sorts(PQgetvalue(r, 0, 0)))
        err = error_set(
            e, ERR_CONFIG,
            "table %s: a page by %s would be sorted; the index on it is not used for its order (is it of the "
            "column's collation?); REINDEX, or CREATE UNIQUE INDEX CONCURRENTLY ON %s (%s)",
            s->tables[table].name, s->id_text, s->tables[table].name, s->id_text);
    return err;
}

enum err source_check(struct source *s, struct error *e)
{
    enum err err = source_ready(s, e);
    for (unsigned i = 0; i < s->table_count && err == ERR_OK; i++) {
        struct source_table *t = &s->tables[i];
        err = check_table(s, t, e);
        if (err == ERR_OK)
            err = check_columns(s, t, e);
        if (err == ERR_OK)
            err = check_index(s, i, e);
        if (err == ERR_OK)
            err = check_where(s, i, e);
        if (err == ERR_OK)
            err = check_plan(s, i, e);
    }
    const struct source_table *first = s->tables;
    for (unsigned i = 1; i < s->table_count && err == ERR_OK; i++)
        for (unsigned c = 0; c < s->id_columns; c++)
            if (strcmp(s->tables[i].id[c].type, first->id[c].type) != 0)
                return error_set(e, ERR_CONFIG, "id column %s is of type %s in table %s, of type %s in %s",
                                 first->id[c].name, first->id[c].type, first->name, s->tables[i].id[c].type,
                                 s->tables[i].name);
    return err;
}

enum err source_warning(struct source *s, char *out, size_t size, struct error *e)
{
    out[0] = '\0';
    for (unsigned i = 0; i < s->table_count && out[0] == '\0'; i++) {
        uint64_t cache = 1;
        enum err err =
            source_count(s, i, "sequence_cache",
                         SQL_BINDINGS({"oid", s->tables[i].oid}, {"column", s->id_column[0]}), &cache, e);
        if (err != ERR_OK)
            return err;
        if (cache > 1)
            (void)snprintf(out, size,
                           "table %s: the sequence of %s has CACHE %llu, so ids are committed far out of "
                           "their order; ALTER SEQUENCE ... CACHE 1",
                           s->tables[i].name, s->tables[i].id[0].name, (unsigned long long)cache);
    }
    return ERR_OK;
}
