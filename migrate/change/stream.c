/* SPDX-License-Identifier: MIT */
/* The happy path is: stream_open() connects with the replication protocol and checks server, tables and
 * publication; stream_create_slot() makes or finds the slot; stream_start() switches the connection to the
 * stream of changes. Possible failure modes are: something must be set up first (ERR_CONFIG, with the
 * remedy); another connection reads from the slot (ERR_BUSY; the call may be repeated); the slot or its WAL
 * is gone. */
#include "migrate/change/stream.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/source/result.h"
#include "migrate/change/stream_internal.h"

/* --- opening --- */

enum err stream_open(struct stream **out, const struct stream_options *options, struct error *e)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->options = *options;
    if (s->options.create_timeout_ms == 0)
        s->options.create_timeout_ms = s->options.timeout_ms;
    s->oids = calloc(options->table_count, sizeof(*s->oids));
    enum err err = s->oids == NULL
                       ? error_set(e, ERR_NOMEM, "out of memory")
                       : connection_open(&s->connection, CONNECTION_REPLICATION, options->dsn,
                                         options->application, options->timeout_ms, options->watch, e);
    if (err == ERR_UNREACHABLE)
        err = stream_explain(&s->options, err, e);
    if (err == ERR_OK)
        err = stream_resolve(s, s->connection, e);
    if (err == ERR_OK)
        err = stream_check_server(s, e);
    if (err == ERR_OK)
        err = stream_check_publication(s, e);
    if (err == ERR_OK)
        err = connection_server(s->connection, &s->server, e);
    if (err != ERR_OK) {
        stream_close(s);
        return err;
    }
    *out = s;
    return ERR_OK;
}

uint64_t stream_server(const struct stream *s)
{
    return s->server;
}

void stream_close(struct stream *s)
{
    if (s == NULL)
        return;
    if (s->started && stream_report(s, NULL) == ERR_OK)
        connection_both_end(s->connection);
    connection_close(s->connection);
    buffer_fini(&s->ids);
    tdestroy(s->relations, free);
    free(s->oids);
    free(s);
}

/* --- the slot --- */

/* Find the slot. A slot with this name that is not ours is an error. */
static enum err find_slot(struct stream *s, struct stream_slot *out, struct error *e)
{
    const char *slot = s->options.slot;
    enum err err = stream_slot_state(s->connection, slot, out, e);
    if (err != ERR_OK || !out->exists)
        return err;
    if (!out->is_ours)
        return error_set(e, ERR_CONFIG,
                         "replication slot %s is another's (plugin \"%s\", database \"%s\"); choose another "
                         "name, or SELECT pg_drop_replication_slot('%s') if nobody needs it",
                         slot, out->plugin, out->database, slot);
    return out->lost ? stream_refuse_lost(slot, e) : ERR_OK;
}

static enum err create(struct stream *s, char lsn[LSN_TEXT], struct error *e)
{
    char command[160];
    (void)snprintf(command, sizeof(command),
                   "CREATE_REPLICATION_SLOT \"%s\" LOGICAL pgoutput (SNAPSHOT 'nothing')", s->options.slot);
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = connection_command(s->connection, command, s->options.create_timeout_ms, &r, e);
    if (err == ERR_OK)
        result_copy(lsn, LSN_TEXT, r, "consistent_point");
    if (err == ERR_TIMEOUT)
        return error_prefix(e, err, "replication slot %s waits for transactions that are open",
                            s->options.slot);
    static const char configuration_limit_exceeded[] = "53400";
    if (err == ERR_REFUSED && strcmp(connection_state(s->connection), configuration_limit_exceeded) == 0)
        return error_set(
            e, ERR_CONFIG,
            "no replication slot is left for %s; drop one that nobody needs (see pg_replication_slots), or "
            "ALTER SYSTEM SET max_replication_slots to more, then restart Postgres",
            s->options.slot);
    return err;
}

static enum err use(struct stream *s, bool *found, char lsn[LSN_TEXT], struct error *e)
{
    struct stream_slot slot;
    enum err err = find_slot(s, &slot, e);
    *found = err == ERR_OK && slot.exists;
    if (*found)
        (void)lsn_format(slot.confirmed_lsn, lsn);
    return err;
}

enum err stream_create_slot(struct stream *s, bool *created, char lsn[LSN_TEXT], struct error *e)
{
    *created = false;
    if (s->started)
        return error_set(e, ERR_CONFLICT, "the stream has begun");
    bool found = false;
    enum err err = use(s, &found, lsn, e);
    if (err != ERR_OK || found)
        return err;
    err = create(s, lsn, e);
    *created = err == ERR_OK;
    return err;
}

/* --- starting --- */

static void put_quoted(struct buffer *out, const char *text)
{
    /* an identifier in a list inside a literal */
    buffer_puts(out, "'\"");
    for (; *text != '\0'; text++)
        buffer_append(out,
                      *text == '"'    ? "\"\""
                      : *text == '\'' ? "''"
                                      : text,
                      *text == '"' || *text == '\'' ? 2 : 1);
    buffer_puts(out, "\"'");
}

static enum err begin(struct stream *s, struct error *e)
{
    SCOPED(buffer_fini) struct buffer command = {0};
    buffer_printf(&command,
                  "START_REPLICATION SLOT \"%s\" LOGICAL 0/0 (proto_version '1', publication_names ",
                  s->options.slot);
    put_quoted(&command, s->options.publication);
    buffer_puts(&command, ")");
    return buffer_failed(&command)
               ? error_set(e, ERR_NOMEM, "out of memory")
               : connection_command(s->connection, buffer_text(&command), s->options.timeout_ms, NULL, e);
}

/* Explain the server's refusal. */
static enum err refused(const struct stream *s, enum err err, struct error *e)
{
    const char *state = connection_state(s->connection);
    if (strcmp(state, "55006") == 0) /* object_in_use */
        return error_prefix(e, ERR_BUSY, "another connection reads from the slot");
    if (strcmp(state, "42704") == 0) /* undefined_object */
        return error_set(e, ERR_NOT_FOUND, "there is no replication slot %s", s->options.slot);
    if (strcmp(state, "55000") == 0) /* object_not_in_prerequisite_state */
        return stream_refuse_lost(s->options.slot, e);
    return err;
}

enum err stream_start(struct stream *s, struct error *e)
{
    if (s->started)
        return error_set(e, ERR_CONFLICT, "the stream has begun");
    struct stream_slot slot;
    enum err err = find_slot(s, &slot, e);
    if (err != ERR_OK)
        return err;
    if (!slot.exists)
        return error_set(e, ERR_NOT_FOUND, "there is no replication slot %s", s->options.slot);
    err = begin(s, e);
    if (err != ERR_OK)
        return refused(s, err, e);
    stream_progress_init(&s->progress, slot.confirmed_lsn);
    s->started = true;
    return ERR_OK;
}

const struct stream_progress *stream_position(const struct stream *s)
{
    return &s->progress;
}
