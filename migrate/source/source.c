/* SPDX-License-Identifier: MIT */
#include "migrate/source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/number.h"
#include "migrate/source/source_internal.h"

/* --- statements --- */

enum err source_ready(const struct source *s, struct error *e)
{
    return s->resolved ? ERR_OK : error_set(e, ERR_CONFIG, "%s", s->problem.text);
}

static const char *piece(const char *text)
{
    return text == NULL ? "" : text;
}

void source_bind(struct sql_binding out[SOURCE_BINDINGS_MAX], const struct source *s, unsigned table,
                 const struct sql_binding *more)
{
    const struct source_table *t = &s->tables[table];
    const struct sql_binding own[] = {{"table", t->name},
                                      {"id", piece(t->id_piece)},
                                      {"descending", piece(t->descending_piece)},
                                      {"key", piece(t->key_piece)},
                                      {"where", piece(s->where_piece)},
                                      {NULL, NULL}};
    for (; more != NULL && more->name != NULL; more++)
        *out++ = *more;
    memcpy(out, own, sizeof(own));
}

enum err source_run(struct source *s, unsigned table, const char *name, const struct sql_binding *more,
                    PGresult **out, struct error *e)
{
    struct sql_binding bindings[SOURCE_BINDINGS_MAX];
    source_bind(bindings, s, table, more);
    return connection_run(s->connection, name, bindings, out, e);
}

enum err source_read(struct source *s, unsigned table, const char *name, const struct sql_binding *more,
                     char *out, size_t size, struct error *e)
{
    struct sql_binding bindings[SOURCE_BINDINGS_MAX];
    source_bind(bindings, s, table, more);
    return connection_read(s->connection, name, bindings, out, size, e);
}

static enum err parse_count(const char *text, uint64_t *out, struct error *e)
{
    return number_u64(text, strlen(text), out)
               ? ERR_OK
               : error_set(e, ERR_PARSE, "Postgres: a count was \"%s\"", text);
}

enum err source_count(struct source *s, unsigned table, const char *name, const struct sql_binding *more,
                      uint64_t *out, struct error *e)
{
    char count[64];
    enum err err = source_read(s, table, name, more, count, sizeof(count), e);
    return err == ERR_OK ? parse_count(count, out, e) : err;
}

/* Read a statement about the server, not about a table. */
static enum err ask(struct source *s, const char *name, const struct sql_binding *bindings, char *out,
                    size_t size, struct error *e)
{
    enum err err = source_ready(s, e);
    return err == ERR_OK ? connection_read(s->connection, name, bindings, out, size, e) : err;
}

/* --- opening --- */

static enum err connect_source(struct source *s, const char *dsn, struct error *e)
{
    return connection_open(&s->connection, CONNECTION_SQL, dsn, s->config.application, s->timeout_ms,
                           s->config.watch, e);
}

enum err source_open_over(struct source **out, struct connection *c, const struct source_config *config,
                          unsigned timeout_ms, struct error *e)
{
    struct source *s = calloc(1, sizeof(*s));
    atomic_uint *users = malloc(sizeof(*users));
    if (s == NULL || users == NULL) {
        free(s);
        free(users);
        connection_close(c);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    atomic_init(users, 1);
    s->users = users;
    s->config = *config;
    s->timeout_ms = timeout_ms;
    s->connection = c;
    enum err err = c == NULL ? connect_source(s, config->dsn, e) : ERR_OK;
    if (err == ERR_OK) {
        err = source_resolve(s, &s->problem);
        s->resolved = err == ERR_OK;
        if (err == ERR_CONFIG || err == ERR_REFUSED)
            err = ERR_OK; /* source_check() reports it */
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

enum err source_open(struct source **out, const struct source_config *config, unsigned timeout_ms,
                     struct error *e)
{
    return source_open_over(out, NULL, config, timeout_ms, e);
}

enum err source_connect(struct source *s, struct error *e)
{
    enum err err = connect_source(s, s->config.dsn, e);
    return err == ERR_OK ? source_set_up(s, e) : err;
}

enum err source_open_another(struct source **out, const struct source *s, const char *dsn,
                             const char *application, struct source_watch watch, struct error *e)
{
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    struct source *another = malloc(sizeof(*another));
    if (another == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    *another = *s;
    (void)atomic_fetch_add(s->users, 1);
    another->connection = NULL;
    another->pool = NULL;
    another->config.application = application;
    another->config.watch = watch;
    err = connect_source(another, dsn == NULL || dsn[0] == '\0' ? s->config.dsn : dsn, e);
    if (err == ERR_OK)
        err = source_set_up(another, e);
    if (err != ERR_OK) {
        source_close(another);
        return err;
    }
    *out = another;
    return ERR_OK;
}

void source_close(struct source *s)
{
    if (s == NULL)
        return;
    if (s->pool != NULL)
        pool_leave(s);
    connection_close(s->connection);
    source_free_tables(s);
    free(s);
}

struct connection *source_connection(const struct source *s)
{
    return s->connection;
}

/* --- names --- */

unsigned source_tables(const struct source *s)
{
    return s->table_count;
}

const char *source_table(const struct source *s, unsigned table)
{
    return s->tables[table].name;
}

uint64_t source_tables_hash(const struct source *s)
{
    uint64_t hash = XXH3_64bits_withSeed(s->id_text, strlen(s->id_text), s->table_count);
    for (unsigned i = 0; i < s->table_count; i++)
        hash = XXH3_64bits_withSeed(s->tables[i].name, strlen(s->tables[i].name), hash);
    return hash;
}

uint64_t source_keys_hash(const struct source *s)
{
    uint64_t hash = XXH3_64bits(piece(s->config.key), strlen(piece(s->config.key)));
    return XXH3_64bits_withSeed(piece(s->config.where), strlen(piece(s->config.where)), hash);
}

enum err source_identity(struct source *s, bool files, const char *newest, uint64_t *out, struct error *e)
{
    enum err err = source_ready(s, e);
    uint64_t hash = err == ERR_OK ? source_tables_hash(s) ^ source_keys_hash(s) : 0;
    for (unsigned i = 0; i < s->table_count && err == ERR_OK; i++) {
        SCOPED(scope_result) PGresult *r = NULL;
        err =
            source_run(s, i, "identity", SQL_BINDINGS({"oid", s->tables[i].oid}, {"newest", newest}), &r, e);
        if (err == ERR_OK && PQntuples(r) == 0)
            err = error_set(e, ERR_CONFIG, "table %s was dropped", s->tables[i].name);
        for (int column = 0; column < (files ? 2 : 1) && err == ERR_OK; column++) {
            const char *text = PQgetvalue(r, 0, column);
            hash = XXH3_64bits_withSeed(text, strlen(text), hash);
        }
    }
    *out = hash;
    return err;
}

static enum err read_hash(struct connection *c, const char *statement, uint64_t seed, uint64_t *out,
                          struct error *e)
{
    char text[SOURCE_BARRIER_MAX] = "";
    enum err err = connection_read(c, statement, NULL, text, sizeof(text), e);
    *out = XXH3_64bits_withSeed(text, strlen(text), seed);
    return err;
}

enum err source_history(struct source *s, struct source_history *out, struct error *e)
{
    char text[SOURCE_BARRIER_MAX] = "";
    enum err err = source_ready(s, e);
    if (err == ERR_OK)
        err = connection_read(s->connection, "history", NULL, text, sizeof(text), e);
    const char *timeline = strrchr(text, '/');
    *out =
        (struct source_history){.system = strtoull(text, NULL, 10), .hash = XXH3_64bits(text, strlen(text))};
    if (timeline != NULL)
        out->timeline = strtoull(timeline + 1, NULL, 16); /* "standby": 0 */
    return err;
}

enum err connection_server(struct connection *c, uint64_t *out, struct error *e)
{
    enum err err = read_hash(c, "history", 0, out, e);
    return err == ERR_OK ? read_hash(c, "server_start", *out, out, e) : err;
}

enum err source_server(struct source *s, uint64_t *out, struct error *e)
{
    enum err err = source_ready(s, e);
    return err == ERR_OK ? connection_server(s->connection, out, e) : err;
}

unsigned source_id_columns(const struct source *s, const char *names[SOURCE_ID_COLUMNS_MAX])
{
    for (unsigned i = 0; i < s->id_columns; i++)
        names[i] = s->id_column[i];
    return s->id_columns;
}

const char *source_id_text(const struct source *s)
{
    return s->id_text;
}

bool source_id_is_integer(const struct source *s)
{
    static const char *const integers[] = {"smallint", "integer", "bigint"};
    bool all = s->id_columns == 1;
    for (unsigned i = 0; i < s->table_count && all; i++) {
        bool is = false;
        for (size_t k = 0; k < sizeof(integers) / sizeof(integers[0]); k++)
            is |= strcmp(s->tables[i].id[0].type, integers[k]) == 0;
        all = is;
    }
    return all;
}

/* --- positions of the server --- */

enum err source_horizon(struct source *s, char out[SOURCE_HORIZON_MAX], struct error *e)
{
    return ask(s, "horizon", NULL, out, SOURCE_HORIZON_MAX, e);
}

enum err source_barrier(struct source *s, char out[SOURCE_BARRIER_MAX], struct error *e)
{
    return ask(s, "barrier", NULL, out, SOURCE_BARRIER_MAX, e);
}

enum err source_has_replayed(struct source *s, const char *barrier, struct source_replay *out,
                             struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    *out = (struct source_replay){.there = false};
    enum err err = source_ready(s, e);
    if (err == ERR_OK)
        err = connection_run(s->connection, "replayed", SQL_BINDINGS({"barrier", barrier}), &r, e);
    if (err == ERR_OK) {
        (void)snprintf(out->why, sizeof(out->why), "%s", PQgetvalue(r, 0, 0));
        out->foreign = PQgetvalue(r, 0, 1)[0] == 't';
        out->there = out->why[0] == '\0';
    }
    return err;
}

/* --- one snapshot --- */

enum err source_snapshot_take(struct source *s, char out[SOURCE_SNAPSHOT_MAX], struct error *e)
{
    enum err err = source_ready(s, e);
    if (err == ERR_OK)
        err = connection_run(s->connection, "snapshot_begin", NULL, NULL, e);
    return err == ERR_OK
               ? connection_read(s->connection, "snapshot_export", NULL, out, SOURCE_SNAPSHOT_MAX, e)
               : err;
}

enum err source_snapshot_join(struct source *s, const char *snapshot, struct error *e)
{
    char name[SOURCE_SNAPSHOT_MAX + 2], own[SOURCE_SNAPSHOT_MAX] = "";
    size_t length = strcspn(snapshot, " ");
    const char *hash = snapshot + length + (snapshot[length] == ' ');
    s->in_snapshot = false;
    (void)snprintf(name, sizeof(name), "'%.*s'", (int)length, snapshot);
    enum err err = connection_run(s->connection, "snapshot_begin", NULL, NULL, e);
    if (err != ERR_OK)
        return err;
    err = connection_run(s->connection, "snapshot_join", SQL_BINDINGS({"name", name}), NULL, e);
    if (err == ERR_OK)
        err = connection_read(s->connection, "snapshot_current", NULL, own, sizeof(own), e);
    /* Compare the snapshot, too: another server may have exported one by the same name. */
    if (err == ERR_REFUSED || err == ERR_CONFIG || (err == ERR_OK && strcmp(own, hash) != 0))
        err = error_set(e, ERR_TIMEOUT, "the snapshot of this pass is gone, or is another server's");
    if (err == ERR_OK)
        err = connection_run(s->connection, "snapshot_page", NULL, NULL, e);
    s->in_snapshot = err == ERR_OK;
    return err;
}

enum err source_replication_lag(struct source *s, double *seconds, struct error *e)
{
    char lag[64];
    enum err err = connection_read(s->connection, "replication_lag", NULL, lag, sizeof(lag), e);
    if (err == ERR_OK && !number_double(lag, strlen(lag), seconds))
        err = error_set(e, ERR_PARSE, "Postgres: a replication lag was \"%s\"", lag);
    return err;
}

enum err source_transactions(struct source *s, uint64_t *count, struct error *e)
{
    char text[64];
    enum err err = connection_read(s->connection, "transactions", NULL, text, sizeof(text), e);
    return err == ERR_OK ? parse_count(text, count, e) : err;
}
