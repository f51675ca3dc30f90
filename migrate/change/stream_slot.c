/* SPDX-License-Identifier: MIT */
/* Reads a slot's state from the catalog, and drops slots. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "migrate/source/result.h"
#include "migrate/source/source_internal.h"
#include "migrate/change/stream_internal.h"

enum { VISIBLE_NAP_US = 5000 };

static enum err read_lsn(const PGresult *r, const char *column, uint64_t *out, struct error *e)
{
    const char *text = result_text(r, column);
    return lsn_parse(text, out) ? ERR_OK : error_set(e, ERR_PARSE, "Postgres: %s was \"%s\"", column, text);
}

static enum err read_number(const PGresult *r, const char *column, uint64_t *out, struct error *e)
{
    return result_number(r, column, out)
               ? ERR_OK
               : error_set(e, ERR_PARSE, "Postgres: %s was \"%s\"", column, result_text(r, column));
}

enum err stream_slot_state(struct connection *c, const char *slot, struct stream_slot *out, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = connection_run(c, "slot_state", SQL_BINDINGS({"slot", slot}), &r, e);
    if (err != ERR_OK)
        return err;
    *out = (struct stream_slot){.exists = result_is_true(r, "exists"),
                                .active = result_is_true(r, "active"),
                                .active_pid = (int)strtol(result_text(r, "active_pid"), NULL, 10)};
    result_copy(out->plugin, sizeof(out->plugin), r, "plugin");
    result_copy(out->database, sizeof(out->database), r, "database");
    result_copy(out->wal_status, sizeof(out->wal_status), r, "wal_status");
    out->lost = strcmp(out->wal_status, "lost") == 0;
    out->is_ours = result_is_true(r, "is_here") && strcmp(out->plugin, "pgoutput") == 0;
    err = read_lsn(r, "restart_lsn", &out->restart_lsn, e);
    if (err == ERR_OK)
        err = read_lsn(r, "confirmed_flush_lsn", &out->confirmed_lsn, e);
    return err == ERR_OK ? read_number(r, "retained", &out->retained, e) : err;
}

enum err stream_refuse_lost(const char *slot, struct error *e)
{
    return error_set(e, ERR_LOST,
                     "the server has given replication slot %s up and removed what it had not read "
                     "(max_slot_wal_keep_size); drop the slot and rebuild",
                     slot);
}

static enum err drop(struct connection *c, const char *slot, struct error *e)
{
    enum err err = connection_run(c, "slot_drop", SQL_BINDINGS({"slot", slot}), NULL, e);
    const char *state = err == ERR_OK ? "" : connection_state(c);
    if (strcmp(state, "42704") == 0) /* undefined_object: another session dropped it first */
        return ERR_OK;
    return strcmp(state, "55006") == 0 ? error_set(e, ERR_BUSY, "replication slot %s is in use", slot) : err;
}

enum err stream_slot_drop(struct connection *c, const char *slot, struct error *e)
{
    struct stream_slot state;
    enum err err = stream_slot_state(c, slot, &state, e);
    if (err != ERR_OK || !state.exists)
        return err;
    if (!state.is_ours)
        return error_set(e, ERR_CONFIG,
                         "replication slot %s is not ours to drop: plugin \"%s\", database \"%s\"", slot,
                         state.plugin, state.database);
    if (state.active)
        return error_set(e, ERR_BUSY, "replication slot %s is in use by pid %d", slot, state.active_pid);
    return drop(c, slot, e);
}

enum err stream_slot_place(struct connection *c, char out[STREAM_PLACE_MAX], struct error *e)
{
    return connection_read(c, "slot_place", NULL, out, STREAM_PLACE_MAX, e);
}

enum err stream_await_visible(struct stream *s, struct source *source, unsigned timeout_ms, struct error *e)
{
    SCOPED(buffer_fini) struct buffer list = {0};
    uint64_t ending = 0, deadline = clock_mono_us() + (uint64_t)timeout_ms * 1000;
    for (size_t i = 0; i < s->xid_count; i++)
        buffer_printf(&list, "%s%" PRIu32, i == 0 ? "{" : ",", s->xids[i]);
    buffer_puts(&list, s->xid_count == 0 ? "{}" : "}");
    enum err err = buffer_failed(&list) ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
    while (err == ERR_OK && s->xid_count > 0) {
        err = source_ending(source, buffer_text(&list), &ending, e);
        if (err == ERR_OK && ending == 0)
            break;
        if (err == ERR_OK && clock_mono_us() >= deadline)
            err = error_set(e, ERR_TIMEOUT,
                            "%" PRIu64 " transaction(s) in the log are not visible within %u ms (does their "
                            "commit wait for a synchronous standby?)",
                            ending, timeout_ms);
        if (err == ERR_OK)
            err = stream_tend(s, e);
        clock_sleep_us(VISIBLE_NAP_US);
    }
    return err;
}

enum err stream_server_lsn(struct source *source, uint64_t *lsn, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    uint64_t insert = 0;
    uint64_t block = 0;
    uint64_t segment = 0;
    enum err err = source_run(source, 0, "current_lsn", NULL, &r, e);
    if (err != ERR_OK)
        return err;
    err = read_lsn(r, "lsn", &insert, e);
    if (err == ERR_OK)
        err = read_number(r, "block", &block, e);
    if (err == ERR_OK)
        err = read_number(r, "segment", &segment, e);
    if (err == ERR_OK)
        *lsn = lsn_record_end(insert, block, segment);
    return err;
}
