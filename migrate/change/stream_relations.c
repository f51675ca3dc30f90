/* SPDX-License-Identifier: MIT */
/* Which relations belong to the tables. The tables and their partitions are looked up before the stream
 * begins. A relation that the server describes later and that is unknown (of another table, or a partition
 * made since) is looked up over a separate connection, because the stream's connection cannot run
 * statements. */
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "migrate/change/stream_internal.h"

/* --- the tree --- */

static int compare(const void *a, const void *b)
{
    const struct stream_relation *one = a, *other = b;
    return (one->relid > other->relid) - (one->relid < other->relid);
}

static struct stream_relation *find(const struct stream *s, uint32_t relid)
{
    const struct stream_relation wanted = {.relid = relid};
    struct stream_relation *const *node = tfind(&wanted, &s->relations, compare);
    return node == NULL ? NULL : *node;
}

const struct stream_relation *stream_find_relation(const struct stream *s, uint32_t relid)
{
    const struct stream_relation *r = find(s, relid);
    return r != NULL && r->described ? r : NULL;
}

static enum err put_relation(struct stream *s, uint32_t relid, size_t table, struct error *e)
{
    struct stream_relation *known = find(s, relid);
    if (known != NULL) {
        /* A relation belongs to one table only: with two, one of them would miss rows. */
        if (known->table != table && known->table != SIZE_MAX && table != SIZE_MAX)
            return error_set(e, ERR_CONFIG,
                             "tables %s and %s are one, or partitions of one; name only the one above",
                             s->options.tables[known->table].table, s->options.tables[table].table);
        known->table = table;
        return ERR_OK;
    }
    known = malloc(sizeof(*known));
    if (known != NULL)
        *known = (struct stream_relation){.relid = relid, .table = table};
    if (known != NULL && tsearch(known, &s->relations, compare) != NULL)
        return ERR_OK;
    free(known);
    return error_set(e, ERR_NOMEM, "out of memory");
}

/* --- looking up --- */

static bool read_oid(const char *text, uint32_t *out)
{
    uint64_t number;
    if (!number_u64(text, strlen(text), &number) || number > UINT32_MAX)
        return false;
    *out = (uint32_t)number;
    return true;
}

static enum err load_relations(struct stream *s, struct connection *c, size_t table, struct error *e)
{
    char oid[16];
    (void)snprintf(oid, sizeof(oid), "%" PRIu32, s->oids[table]);
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = connection_run(c, "stream_relations", SQL_BINDINGS({"oid", oid}), &r, e);
    if (err != ERR_OK)
        return err;
    for (int i = 0; i < PQntuples(r) && err == ERR_OK; i++) {
        uint32_t relid;
        err = read_oid(PQgetvalue(r, i, 0), &relid)
                  ? put_relation(s, relid, table, e)
                  : error_set(e, ERR_PARSE, "Postgres: an oid was \"%s\"", PQgetvalue(r, i, 0));
    }
    return err;
}

enum err stream_resolve(struct stream *s, struct connection *connection, struct error *e)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < s->options.table_count && err == ERR_OK; i++) {
        /* Use the role's own search_path, as a source does. */
        const char *name = s->options.tables[i].table;
        char oid[CONNECTION_OID_MAX];
        err = connection_resolve(connection, name, oid, e);
        if (err == ERR_OK && !read_oid(oid, &s->oids[i]))
            err = error_set(
                e, ERR_CONFIG,
                "table %s does not exist for this role; correct its name, or qualify it: schema.name", name);
    }
    /* The settings of a source, so that an id has the same text form. No statement timeouts on the server:
     * this process has its own. */
    if (err == ERR_OK)
        err = connection_set_up(connection, "session", 0, 0, e);
    for (size_t i = 0; i < s->options.table_count && err == ERR_OK; i++)
        err = load_relations(s, connection, i, e);
    return err;
}

/* After this a relation that is not ours is in the tree as such. */
static enum err look_up(struct stream *s, uint32_t relid, struct error *e)
{
    const struct stream_options *o = &s->options;
    struct connection *c = NULL;
    enum err err = connection_open(&c, CONNECTION_SQL, o->dsn, o->application, o->timeout_ms, o->watch, e);
    if (err == ERR_OK)
        err = stream_resolve(s, c, e);
    connection_close(c);
    if (err == ERR_OK && find(s, relid) == NULL)
        err = put_relation(s, relid, SIZE_MAX, e);
    return err;
}

/* --- descriptions --- */

static enum err find_columns(const struct stream *s, struct stream_relation *known,
                             const struct pgoutput_relation *r, struct error *e)
{
    const struct stream_table *table = &s->options.tables[known->table];
    for (size_t i = 0; i < table->id_count; i++) {
        if (!pgoutput_find_column(r, table->id_columns[i], &known->columns[i]))
            return error_set(e, ERR_CONFIG,
                             "publication %s does not send column \"%s\" of table %s.%s; name it in the "
                             "publication's column list",
                             s->options.publication, table->id_columns[i], r->schema, r->name);
    }
    return ERR_OK;
}

enum err stream_describe(struct stream *s, const struct pgoutput_relation *r, struct error *e)
{
    /* a relation that was not ours is described again when it becomes a partition */
    if (stream_table_of(s, r->relid) == SIZE_MAX) {
        enum err err = look_up(s, r->relid, e);
        if (err != ERR_OK)
            return error_prefix(e, err, "table %s.%s", r->schema, r->name);
    }
    struct stream_relation *known = find(s, r->relid);
    known->described = true;
    return known->table == SIZE_MAX ? ERR_OK : find_columns(s, known, r, e);
}

size_t stream_table_of(const struct stream *s, uint32_t relid)
{
    const struct stream_relation *r = find(s, relid);
    return r == NULL ? SIZE_MAX : r->table;
}
