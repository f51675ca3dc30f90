/* SPDX-License-Identifier: MIT */
/* The happy path is: outbox_open() listens; outbox_next() reads rows, or waits for a notification and reads
 * again, hands the rows out and remembers their numbers; outbox_confirm() deletes these numbers. Possible
 * failure modes are:
 * - a row is committed after one with a larger number: a later read finds it, because only numbers that were
 *   handed out are remembered;
 * - the process dies: the rows are still there;
 * - a notification is missing: outbox_next() reads every half second;
 * - there are two readers of one filter: both get the rows, and the second one to delete finds none;
 * - there is a reader of another filter, or of another installation: outbox_claim() refuses the second one;
 * - the outbox is dropped and recreated: a read compares the table's oid;
 * - the outbox is truncated or rewritten, and its numbers may start again: a delete names the table's file,
 * too, and what was taken from another file is no longer remembered. */
#include "migrate/change/outbox.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/number.h"
#include "migrate/source/connection.h"
#include "migrate/source/result.h"

enum { POLL_MS = 500 };

/* A row that was handed out and is not deleted yet. */
struct taken {
    int64_t seq;
    uint64_t mark; /* mark of the row's batch */
};

struct outbox {
    struct connection *connection;
    char oid[CONNECTION_OID_MAX];
    char file[CONNECTION_OID_MAX]; /* the table's, from which the taken rows were read */
    char name[288];                /* the outbox, as the server quotes it */
    uint64_t server;               /* as outbox_server() */
    PGresult *page;                /* holds the ids of the last batch */
    uint64_t mark;                 /* mark of the last batch */
    struct feed_row rows[OUTBOX_BATCH_MAX];
    size_t taken_count;
    struct taken taken[OUTBOX_UNCONFIRMED_MAX]; /* sorted by mark */
};

/* --- statements --- */

/* Run a statement on an open outbox: if the server rejects it now, the outbox or the right to it is gone. */
static enum err run_open(struct outbox *o, const char *name, const struct sql_binding *bindings,
                         PGresult **out, struct error *e)
{
    struct error why = {0};
    enum err err = connection_run(o->connection, name, bindings, out, &why);
    if (err == ERR_CONFIG)
        return error_set(e, err, "outbox %s: %.200s; run sql/outbox.sql, open it again and rebuild", o->name,
                         why.text);
    return err == ERR_OK ? ERR_OK : error_set(e, err, "outbox %s: %.200s", o->name, why.text);
}

/* --- opening --- */

/* The server's own timeouts are the last resort, in case this process vanishes from the network. */
static enum err set_up_session(struct outbox *o, unsigned timeout_ms, struct error *e)
{
    unsigned ms = timeout_ms == 0 ? 1 : timeout_ms;
    return connection_set_up(o->connection, "outbox_session", ms < 1000 * 1000 ? 2 * ms : ms, ms, e);
}

static enum err judge(const PGresult *r, struct error *e)
{
    const char *name = result_text(r, "name");
    if (result_is_true(r, "is_standby"))
        return error_set(
            e, ERR_CONFIG,
            "the server is a standby; connect to the primary (target_session_attrs=primary in the dsn)");
    if (!result_is_true(r, "is_outbox"))
        return error_set(e, ERR_CONFIG,
                         "%s is not an outbox: it lacks the columns seq, relid and id; name the table that "
                         "sql/outbox.sql made",
                         name);
    if (!result_is_true(r, "is_logged"))
        return error_set(e, ERR_CONFIG, "a crash of the server would empty it; ALTER TABLE %s SET LOGGED",
                         name);
    if (!result_is_true(r, "may_use_schema"))
        return error_set(e, ERR_CONFIG, "GRANT USAGE ON SCHEMA %s TO %s", result_text(r, "schema"),
                         result_text(r, "role"));
    if (!result_is_true(r, "may_use"))
        return error_set(e, ERR_CONFIG, "GRANT SELECT, DELETE ON %s TO %s", name, result_text(r, "role"));
    if (result_is_true(r, "hides_rows"))
        return error_set(e, ERR_CONFIG,
                         "row-level security hides rows; ALTER TABLE %s DISABLE ROW LEVEL SECURITY", name);
    return ERR_OK;
}

static enum err check_outbox(struct outbox *o, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = connection_run(o->connection, "outbox_table", SQL_BINDINGS({"oid", o->oid}), &r, e);
    if (err != ERR_OK)
        return err;
    if (PQntuples(r) == 0)
        err = error_set(e, ERR_CONFIG, "it was dropped; run sql/outbox.sql");
    else
        err = judge(r, e);
    if (err == ERR_OK)
        result_copy(o->name, sizeof(o->name), r, "name");
    return err;
}

static enum err check_triggers(struct outbox *o, const char *table, const char *oid, const char *ids,
                               int64_t *state, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = connection_run(o->connection, "outbox_triggers",
                                  SQL_BINDINGS({"oid", oid}, {"outbox", o->oid}), &r, e);
    if (err != ERR_OK)
        return err;
    if (PQntuples(r) == 0)
        err = error_set(e, ERR_CONFIG, "table %s was dropped", table);
    else if (!result_is_true(r, "is_complete"))
        err = error_set(e, ERR_CONFIG,
                        "table %s does not write all its rows into it; run sql/outbox.sql for this table",
                        result_text(r, "name"));
    else if (ids != NULL && strcmp(result_text(r, "ids"), ids) != 0)
        err = error_set(
            e, ERR_CONFIG,
            "table %s writes \"%s\" into it, and the id is \"%s\"; run sql/outbox.sql with that id, "
            "or correct id_column",
            result_text(r, "name"), result_text(r, "ids"), ids);
    else if (!number_i64(result_text(r, "state"), strlen(result_text(r, "state")), state))
        err = error_set(e, ERR_PARSE, "the state of triggers was \"%s\"", result_text(r, "state"));
    return err;
}

static enum err set_up(struct outbox *o, const struct outbox_options *options, struct error *e)
{
    char table[CONNECTION_OID_MAX] = "";
    int64_t state;
    /* under the role's own search_path, before the session is set up */
    enum err err = connection_resolve(o->connection, options->outbox, o->oid, e);
    if (err == ERR_OK && o->oid[0] == '\0')
        err = error_set(
            e, ERR_CONFIG,
            "there is no such table for this role; run sql/outbox.sql, or qualify the name: schema.name");
    if (err == ERR_OK && options->table != NULL)
        err = connection_resolve(o->connection, options->table, table, e);
    if (err == ERR_OK && options->table != NULL && table[0] == '\0')
        err = error_set(e, ERR_CONFIG, "table %s does not exist for this role", options->table);
    if (err == ERR_OK)
        err = set_up_session(o, options->timeout_ms, e);
    if (err == ERR_OK)
        err = check_outbox(o, e);
    if (err == ERR_OK && options->table != NULL)
        err = check_triggers(o, options->table, table, NULL, &state, e);
    if (err == ERR_OK)
        err = connection_server(o->connection, &o->server, e);
    if (err == ERR_OK)
        err = connection_run(o->connection, "outbox_listen", SQL_BINDINGS({"outbox", o->name}), NULL, e);
    return err == ERR_OK ? ERR_OK : error_prefix(e, err, "outbox %s", options->outbox);
}

enum err outbox_open(struct outbox **out, const struct outbox_options *options, struct error *e)
{
    struct outbox *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    o->file[0] = '0';          /* none yet */
    o->mark = clock_mono_us(); /* larger than every mark of an outbox that was opened earlier */
    enum err err = connection_open(&o->connection, CONNECTION_SQL, options->dsn, options->application,
                                   options->timeout_ms, options->watch, e);
    if (err == ERR_OK)
        err = set_up(o, options, e);
    if (err != ERR_OK) {
        outbox_close(o);
        return err;
    }
    *out = o;
    return ERR_OK;
}

static enum err look_for_others(struct outbox *o, const struct sql_binding *who, bool *others,
                                struct error *e)
{
    char pid[16] = "";
    enum err err = connection_read(o->connection, "outbox_others", who, pid, sizeof(pid), e);
    *others = err == ERR_OK && pid[0] != '\0';
    return *others ? error_set(e, ERR_CONFIG,
                               "outbox %s: pid %s reads it for another filter, or for another installation; "
                               "each needs one of its own: run sql/outbox.sql with another name",
                               o->name, pid)
                   : err;
}

/* Who is refused has said nothing. Of two that say it at the same moment, one at least sees the other. */
enum err outbox_claim(struct outbox *o, uint32_t reader, bool *others, struct error *e)
{
    char number[16];
    (void)snprintf(number, sizeof(number), "%u", (unsigned)reader);
    const struct sql_binding *who = SQL_BINDINGS({"oid", o->oid}, {"reader", number});
    enum err err = look_for_others(o, who, others, e);
    if (err == ERR_OK)
        err = connection_run(o->connection, "outbox_claim", who, NULL, e);
    return err == ERR_OK ? look_for_others(o, who, others, e) : err;
}

uint64_t outbox_server(const struct outbox *o)
{
    return o->server;
}

enum err outbox_table_state(struct outbox *o, const char *table, const char *ids, int64_t *out,
                            struct error *e)
{
    char oid[CONNECTION_OID_MAX] = "";
    enum err err = connection_resolve(o->connection, table, oid, e);
    if (err == ERR_OK && oid[0] == '\0')
        err = error_set(e, ERR_CONFIG, "table %s does not exist for this role", table);
    if (err == ERR_OK)
        err = check_triggers(o, table, oid, ids, out, e);
    return err == ERR_OK ? ERR_OK : error_prefix(e, err, "outbox %s", o->name);
}

void outbox_close(struct outbox *o)
{
    if (o == NULL)
        return;
    PQclear(o->page);
    connection_close(o->connection);
    free(o);
}

/* --- reading --- */

/* run_open() of a statement about the first @count taken rows. */
static enum err run_taken(struct outbox *o, const char *name, size_t count, const char *limit, PGresult **out,
                          struct error *e)
{
    SCOPED(buffer_fini) struct buffer taken = {0};
    buffer_puts(&taken, "{"); /* the numbers of the first @count taken rows as an SQL array */
    for (size_t i = 0; i < count; i++)
        buffer_printf(&taken, "%s%lld", i == 0 ? "" : ",", (long long)o->taken[i].seq);
    buffer_puts(&taken, "}");
    const char *text = buffer_text(&taken);
    return buffer_failed(&taken) ? error_set(e, ERR_NOMEM, "out of memory")
                                 : run_open(o, name,
                                            SQL_BINDINGS({"outbox", o->name}, {"taken", text},
                                                         {"file", o->file}, {"limit", limit}),
                                            out, e);
}

/* The maximum number of rows of the next batch. */
static size_t room_of(const struct outbox *o)
{
    size_t room = OUTBOX_UNCONFIRMED_MAX - o->taken_count;
    return room < OUTBOX_BATCH_MAX ? room : (size_t)OUTBOX_BATCH_MAX;
}

static enum err read_page(struct outbox *o, struct error *e)
{
    char limit[24];
    (void)snprintf(limit, sizeof(limit), "%zu", room_of(o));
    PQclear(o->page);
    o->page = NULL;
    return run_taken(o, "outbox_read", o->taken_count, limit, &o->page, e);
}

/* Copy row @i of the page to the batch and to `taken`. The caller counts it only when the whole page was
 * copied. */
static enum err take_row(struct outbox *o, int i, struct error *e)
{
    const PGresult *r = o->page;
    struct taken *taken = &o->taken[o->taken_count + (size_t)i];
    uint64_t relid;
    taken->mark = o->mark + 1;
    if (!number_i64(PQgetvalue(r, i, 0), (size_t)PQgetlength(r, i, 0), &taken->seq) ||
        !number_u64(PQgetvalue(r, i, 1), (size_t)PQgetlength(r, i, 1), &relid) || relid > UINT32_MAX)
        return error_set(e, ERR_PARSE, "outbox %s: a row was \"%s\", \"%s\"", o->name, PQgetvalue(r, i, 0),
                         PQgetvalue(r, i, 1));
    if (strcmp(PQgetvalue(r, i, 3), o->oid) != 0)
        return error_set(e, ERR_CONFIG,
                         "outbox %s was dropped and created again, so rows may have been missed; open it "
                         "again and rebuild",
                         o->name);
    o->rows[i] = (struct feed_row){
        .relid = (uint32_t)relid, .id = PQgetvalue(r, i, 2), .length = (size_t)PQgetlength(r, i, 2)};
    return ERR_OK;
}

static enum err take_page(struct outbox *o, struct feed_batch *batch, struct error *e)
{
    int count = PQntuples(o->page);
    bool all = (size_t)count < room_of(o);
    enum err err = ERR_OK;
    const char *file = count > 0 ? PQgetvalue(o->page, 0, 4) : o->file;
    /* What was taken from another file is gone, or is on the page once more. */
    if (strcmp(file, o->file) != 0) {
        o->taken_count = 0;
        (void)snprintf(o->file, sizeof(o->file), "%s", file);
    }
    for (int i = 0; i < count && err == ERR_OK; i++)
        err = take_row(o, i, e);
    if (err != ERR_OK)
        return err;
    if (count > 0)
        o->mark++;
    o->taken_count += (size_t)count;
    *batch = (struct feed_batch){.count = (size_t)count, .rows = o->rows, .mark = o->mark, .all = all};
    return ERR_OK;
}

enum err outbox_next(struct outbox *o, struct feed_batch *batch, unsigned timeout_ms, struct error *e)
{
    *batch = (struct feed_batch){.rows = o->rows, .mark = o->mark};
    if (o->taken_count >= OUTBOX_UNCONFIRMED_MAX)
        return error_set(e, ERR_CONFLICT, "outbox %s: %zu rows wait to be confirmed", o->name,
                         o->taken_count);
    uint64_t until = clock_mono_us() + (uint64_t)timeout_ms * 1000;
    for (;;) {
        enum err err = read_page(o, e);
        if (err != ERR_OK)
            return err;
        uint64_t now = clock_mono_us();
        if (PQntuples(o->page) > 0 || now >= until)
            return take_page(o, batch, e);
        uint64_t ms = (until - now + 999) / 1000;
        err = connection_await_notification(o->connection, o->name, ms < POLL_MS ? (unsigned)ms : POLL_MS, e);
        if (err != ERR_OK)
            return error_prefix(e, err, "outbox %s", o->name);
    }
}

/* --- confirming --- */

enum err outbox_confirm(struct outbox *o, uint64_t mark, struct error *e)
{
    if (mark > o->mark)
        return error_set(e, ERR_RANGE, "outbox %s: no batch had the mark %llu", o->name,
                         (unsigned long long)mark);
    size_t count = 0;
    while (count < o->taken_count && o->taken[count].mark <= mark)
        count++;
    if (count == 0)
        return ERR_OK;
    enum err err = run_taken(o, "outbox_delete", count, "0", NULL, e);
    if (err != ERR_OK)
        return err;
    o->taken_count -= count;
    memmove(o->taken, o->taken + count, o->taken_count * sizeof(*o->taken));
    return ERR_OK;
}

enum err outbox_lag(struct outbox *o, double *seconds, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = run_open(o, "outbox_lag", SQL_BINDINGS({"outbox", o->name}), &r, e);
    if (err != ERR_OK)
        return err;
    const char *text = result_text(r, "seconds");
    if (!number_double(text, strlen(text), seconds))
        err = error_set(e, ERR_PARSE, "outbox %s: its lag was \"%s\"", o->name, text);
    return err;
}
