/* SPDX-License-Identifier: MIT */
/* Follows rows from a replication slot or an outbox. The happy path is: a batch comes, its rows' keys are
 * read by id and added, the batch is confirmed. Possible failure modes are: a row is reported before it is
 * visible (wait for the batch, see stream_await_visible()); the process dies or Redis is away before a batch
 * is confirmed (the batch comes again); the slot is gone or was invalidated (make it again, with another
 * coverage); the publication, the outbox or its triggers are others than when the feed was opened, or than
 * for the last follower, so rows may not have been reported in between (open it again, with another
 * coverage); the server keeps too much WAL for it (drop it, and fall back to ids). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "expansion/follow/slots.h"
#include "expansion/follow/follower_internal.h"
#include "migrate/source/connection.h"
#include "migrate/source/scan.h"

enum {
    WAIT_MS = 200,            /* for rows, before other work is done */
    REFUSALS_MAX = 3,         /* of an outbox that another one reads; then it is asked for seldom */
    LOOK_US = 2 * 1000 * 1000 /* between looks at slot and lag */
};

/* --- the slot --- */

static enum err drop_slot(struct follower *t, const char *slot, struct error *e)
{
    enum err code = stream_slot_drop(source_connection(t->source), slot, e);
    return code == ERR_OK ? follower_mark_write(t, "slot", NULL, e) : code;
}

enum err follower_feed_drop_slot(struct follower *t, struct error *e)
{
    char made[FOLLOWER_SLOT_MAX] = "";
    enum err code = follower_mark_read(t, "slot", made, sizeof(made), e);
    if (code != ERR_OK || made[0] == '\0')
        return code;
    code = drop_slot(t, made, e);
    if (code == ERR_OK)
        log_info("follow_slot_dropped", "filter=%s slot=%s", log_quote(t->o->filter), log_quote(made));
    return code;
}

enum err follower_feed_watch_slot(struct follower *t, struct error *e)
{
    struct stream_slot slot;
    enum err code = stream_slot_state(source_connection(t->source), t->o->slot, &slot, e);
    if (code != ERR_OK || !slot.exists || slot.retained <= t->o->slot_wal_max)
        return code;
    (void)snprintf(t->fallback, sizeof(t->fallback),
                   "the server kept %" PRIu64 " bytes for replication slot %s, more than slot_wal_max: it "
                   "was dropped, rows are followed by their ids",
                   slot.retained, t->o->slot);
    log_warn("follow_fallback", "filter=%s error=%s", log_quote(t->o->filter), log_quote(t->fallback));
    follower_feed_close(t);
    t->mode = FOLLOWER_KEYSET;
    code = drop_slot(t, t->o->slot, e); /* if the mark stays, that is repeated later */
    return code == ERR_OK ? error_set(e, ERR_CONFLICT, "%s", t->fallback) : code;
}

/* --- open, close --- */

static enum err make_tables(struct follower *t, struct error *e)
{
    struct follower_feed *f = &t->feed;
    unsigned tables = source_tables(t->source), columns = source_id_columns(t->source, f->id_columns);
    f->tables = calloc(tables, sizeof(*f->tables));
    if (f->tables == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < tables; i++)
        f->tables[i] = (struct stream_table){
            .table = source_table(t->source, i), .id_columns = f->id_columns, .id_count = columns};
    return ERR_OK;
}

/* Note that the slot is ours to drop, before making it. *@at: where it begins. */
static enum err create_slot(struct follower *t, uint64_t *at, struct error *e)
{
    char lsn[LSN_TEXT] = "";
    bool created = false;
    char place[STREAM_PLACE_MAX];
    enum err code = stream_slot_place(source_connection(t->source), place, e);
    if (code == ERR_OK)
        code = slots_note(t->redis, t->o->prefix, place, t->o->slot, t->o->filter, e);
    if (code == ERR_OK)
        code = follower_mark_write(t, "slot", t->o->slot, e);
    source_rest(t->source); /* making a slot may wait long for open transactions */
    if (code == ERR_OK)
        code = stream_create_slot(t->feed.stream, &created, lsn, e);
    if (code == ERR_OK)
        code = source_take(t->source, e);
    if (code == ERR_OK && created)
        log_info("follow_slot_created", "filter=%s slot=%s lsn=%s", log_quote(t->o->filter), t->o->slot, lsn);
    return code == ERR_OK && !lsn_parse(lsn, at)
               ? error_set(e, ERR_PARSE, "replication slot %s begins at \"%s\"", t->o->slot, lsn)
               : code;
}

/* A slot that is read cannot be dropped. Until then another may have taken its place, whoever has made it. */
static enum err same_slot(struct follower *t, uint64_t at, struct error *e)
{
    struct stream_slot slot;
    enum err code = stream_slot_state(source_connection(t->source), t->o->slot, &slot, e);
    return code == ERR_OK && slot.confirmed_lsn != at
               ? error_set(e, ERR_CONFLICT, "replication slot %s was moved, or made again", t->o->slot)
               : code;
}

static enum err start_stream(struct follower *t, struct error *e)
{
    uint64_t at = 0;
    enum err code = create_slot(t, &at, e);
    if (code == ERR_OK)
        code = follower_gap_fill(t, at, e);
    if (code == ERR_OK)
        code = stream_start(t->feed.stream, e);
    if (code == ERR_OK)
        code = same_slot(t, at, e);
    if (code != ERR_LOST)
        return code;
    struct error why;
    if (drop_slot(t, t->o->slot, &why) != ERR_OK)
        return error_prefix(e, code, "%s", why.text);
    return code; /* the next attempt makes the slot */
}

static enum err open_stream(struct follower *t, struct error *e)
{
    struct follower_feed *f = &t->feed;
    enum err code = make_tables(t, e);
    const struct stream_options options = {.dsn = t->o->source.dsn,
                                           .application = "twinbloom follower",
                                           .slot = t->o->slot,
                                           .publication = t->o->publication,
                                           .timeout_ms = t->o->postgres_timeout_ms,
                                           .create_timeout_ms = t->o->settle_timeout_ms,
                                           .watch = {follower_watch, t},
                                           .tables = f->tables,
                                           .table_count = source_tables(t->source)};
    return code == ERR_OK ? stream_open(&f->stream, &options, e) : code;
}

/* This one does not get what another one reads, and deletes. So once that one is gone the whole table is
 * read. Until then this one looks seldom, or it would take the other one's place at its next restart. But the
 * first times it may be that of an earlier filter of this name, which is about to end. */
static enum err claim_outbox(struct follower *t, struct error *e)
{
    bool others = false;
    struct error failed;
    uint64_t incarnation = t->view.incarnation; /* as good as unique among all installations */
    enum err code = outbox_claim(t->feed.outbox, (uint32_t)(incarnation ^ incarnation >> 32), &others, e);
    t->refusals = others ? t->refusals + 1 : 0;
    t->impossible = t->refusals >= REFUSALS_MAX;
    enum err noted = others ? follower_gap_distrust(t, &failed) : ERR_OK;
    return noted == ERR_OK ? code : error_set(e, noted, "%s", failed.text);
}

static enum err table_state(struct follower *t, unsigned table, int64_t *out, struct error *e)
{
    const char *columns[SOURCE_ID_COLUMNS_MAX];
    SCOPED(buffer_fini) struct buffer ids = {0};
    unsigned count = source_id_columns(t->source, columns);
    for (unsigned i = 0; i < count; i++)
        buffer_printf(&ids, "%s%s", i == 0 ? "" : ",", columns[i]);
    return buffer_failed(&ids) ? error_set(e, ERR_NOMEM, "out of memory")
                               : outbox_table_state(t->feed.outbox, source_table(t->source, table),
                                                    buffer_text(&ids), out, e);
}

static enum err open_outbox(struct follower *t, struct error *e)
{
    struct follower_feed *f = &t->feed;
    const struct outbox_options options = {.dsn = t->o->source.dsn,
                                           .application = "twinbloom follower",
                                           .outbox = t->o->outbox,
                                           .timeout_ms = t->o->postgres_timeout_ms,
                                           .watch = {follower_watch, t}};
    enum err code = outbox_open(&f->outbox, &options, e);
    if (code == ERR_OK)
        code = claim_outbox(t, e);
    f->reported = calloc(source_tables(t->source), sizeof(*f->reported));
    if (code == ERR_OK && f->reported == NULL)
        code = error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < source_tables(t->source) && code == ERR_OK; i++)
        code = table_state(t, i, &f->reported[i], e);
    return code;
}

static enum err read_publication(struct follower *t, uint64_t *out, struct error *e)
{
    char text[24];
    enum err code = connection_read(source_connection(t->source), "publication_state",
                                    SQL_BINDINGS({"publication", t->o->publication}), text, sizeof(text), e);
    int64_t state = 0; /* of a publication that does not exist */
    if (code == ERR_OK && text[0] != '\0' && !number_i64(text, strlen(text), &state))
        code = error_set(e, ERR_PARSE, "Postgres: the state of a publication was \"%s\"", text);
    *out = (uint64_t)state;
    return code;
}

/* What the publication sends, and of which table, is kept beyond the follower: if it was another when rows
 * were followed last, or none, rows may have come that nothing reported, or that were read as they were not.
 */
static enum err note_reporting(struct follower *t, struct error *e)
{
    char before[24] = "", now[24];
    enum err code = t->mode == FOLLOWER_LOGICAL ? read_publication(t, &t->feed.reporting, e) : ERR_OK;
    (void)snprintf(now, sizeof(now), "%016" PRIx64, t->feed.reporting ^ t->identity);
    if (code == ERR_OK)
        code = follower_mark_read(t, "reporting", before, sizeof(before), e);
    if (code != ERR_OK || strcmp(before, now) == 0)
        return code;
    code = follower_mark_write(t, "position", NULL, e);
    return code == ERR_OK ? follower_mark_write(t, "reporting", now, e) : code;
}

/* Each connection is made by itself. What one server reports is not read from another one. */
static enum err same_server(struct follower *t, struct error *e)
{
    struct follower_feed *f = &t->feed;
    uint64_t server = 0;
    enum err code = source_server(t->source, &server, e);
    f->server = f->stream != NULL ? stream_server(f->stream) : outbox_server(f->outbox);
    return code == ERR_OK && server != f->server
               ? error_set(e, ERR_UNREACHABLE,
                           "dsn leads to two servers: a primary was replaced, but still runs")
               : code;
}

enum err follower_feed_open(struct follower *t, struct error *e)
{
    struct source_history history;
    t->feed = (struct follower_feed){.gap_open = true};
    enum err code = source_history(t->source, &history, e);
    t->feed.history = history.hash;
    bool outbox = t->mode == FOLLOWER_OUTBOX;
    if (code == ERR_OK)
        code = note_reporting(t, e); /* before the publication is checked */
    if (code == ERR_OK && !outbox)
        code = follower_feed_watch_slot(t, e);
    if (code == ERR_OK)
        code = outbox ? open_outbox(t, e) : open_stream(t, e);
    if (code == ERR_OK)
        code = same_server(t, e);
    if (code == ERR_OK && outbox)
        code = follower_gap_compare(t, t->feed.reported, e);
    if (code != ERR_OK)
        return code;
    return outbox ? follower_gap_fill(t, 0, e) : start_stream(t, e);
}

void follower_feed_close(struct follower *t)
{
    struct follower_feed *f = &t->feed;
    if (follower_stops(t))
        follower_gap_leave(t);
    follower_forget(&f->gap);
    stream_close(f->stream);
    outbox_close(f->outbox);
    free(f->tables);
    free(f->reported);
    free(f->relations);
    *f = (struct follower_feed){.stream = NULL};
}

/* --- rows to keys --- */

static enum err remember(struct follower_feed *f, uint32_t relid, size_t table, struct error *e)
{
    struct follower_relation *more = reallocarray(f->relations, f->relation_count + 1, sizeof(*more));
    if (more == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    f->relations = more;
    f->relations[f->relation_count++] = (struct follower_relation){relid, table};
    return ERR_OK;
}

/* *@table SIZE_MAX: not one of ours. That is not cached, as the relation may become a partition. */
static enum err table_of(struct follower *t, uint32_t relid, size_t *table, struct error *e)
{
    struct follower_feed *f = &t->feed;
    if (f->stream != NULL) {
        *table = stream_table_of(f->stream, relid);
        return ERR_OK;
    }
    for (size_t i = 0; i < f->relation_count; i++)
        if (f->relations[i].relid == relid) {
            *table = f->relations[i].table;
            return ERR_OK;
        }
    enum err code = source_table_of(t->source, relid, table, e);
    return code == ERR_OK && *table != SIZE_MAX ? remember(f, relid, *table, e) : code;
}

static enum err read_keys(struct follower *t, size_t table, const char *const *ids, size_t *count,
                          struct buffer *keys, struct error *e)
{
    const struct scan_options options = {
        .timeout_ms = t->o->postgres_timeout_ms, .row = follower_take_row, .arg = keys};
    enum err code = scan_keys_of(t->source, (unsigned)table, ids, *count, &options, e);
    *count = 0;
    return code;
}

/* Read the keys of a batch's rows, table by table. */
static enum err keys_of_batch(struct follower *t, const struct feed_batch *batch, struct buffer *keys,
                              struct error *e)
{
    const char *ids[STREAM_BATCH_ROWS];
    size_t count = 0, last = 0;
    enum err code = ERR_OK;
    for (size_t i = 0; i < batch->count && code == ERR_OK; i++) {
        size_t table;
        code = table_of(t, batch->rows[i].relid, &table, e);
        if (code != ERR_OK || table == SIZE_MAX)
            continue;
        if (table != last || count == STREAM_BATCH_ROWS)
            code = read_keys(t, last, ids, &count, keys, e);
        ids[count++] = batch->rows[i].id;
        last = table;
    }
    return code == ERR_OK ? read_keys(t, last, ids, &count, keys, e) : code;
}

static enum err add_batch(struct follower *t, const struct feed_batch *batch, struct error *e)
{
    SCOPED(buffer_fini) struct buffer keys = {0};
    enum err code = t->feed.stream == NULL
                        ? ERR_OK
                        : stream_await_visible(t->feed.stream, t->source, t->o->postgres_timeout_ms, e);
    if (code == ERR_OK)
        code = keys_of_batch(t, batch, &keys, e);
    return code == ERR_OK ? follower_add(t, &keys, e) : code;
}

/* --- requests, lag --- */

static enum err same_outbox(struct follower *t, struct error *e)
{
    const struct follower_feed *f = &t->feed;
    enum err code = ERR_OK;
    for (unsigned i = 0; i < source_tables(t->source) && code == ERR_OK; i++) {
        int64_t now = 0;
        code = table_state(t, i, &now, e);
        if (code == ERR_OK && now != f->reported[i])
            code =
                error_set(e, ERR_CHANGED, "the outbox, or triggers of %s, changed: rows may have been missed",
                          source_table(t->source, i));
    }
    return code;
}

/* If a table's name now stands for another table, that one may lack the triggers or the publication: then its
 * rows are not reported. If these changed, there may have been a time without them. */
static enum err same_tables(struct follower *t, bool at_once, struct error *e)
{
    uint64_t now = 0;
    enum err code = follower_same_tables(t, at_once, e);
    if (code == ERR_OK)
        code = follower_unchanged(t, e);
    if (code == ERR_OK && t->feed.outbox != NULL)
        return same_outbox(t, e);
    if (code == ERR_OK)
        code = read_publication(t, &now, e);
    return code == ERR_OK && now != t->feed.reporting
               ? error_set(e, ERR_CHANGED, "the publication changed: rows may have been missed")
               : code;
}

static enum err answer(struct follower *t, uint64_t request, struct error *e)
{
    enum err code = same_tables(t, true, e);
    if (code != ERR_OK)
        return code;
    t->feed.request = 0;
    t->done = request;
    return follower_hold(t, e);
}

/* All that is committed when a request is seen ended before this position. */
static enum err note_request(struct follower *t, struct error *e)
{
    struct follower_feed *f = &t->feed;
    if (f->stream == NULL || f->request != 0 || t->request <= t->done)
        return ERR_OK;
    enum err code = stream_server_lsn(t->source, &f->request_lsn, e);
    if (code == ERR_OK)
        f->request = t->request;
    return code;
}

static enum err look(struct follower *t, bool quiet, struct error *e)
{
    struct follower_feed *f = &t->feed;
    uint64_t now = clock_mono_us();
    if (f->stream != NULL) {
        uint64_t when = stream_position(f->stream)->committed_us, wall = clock_wall_us();
        t->lag_ms = quiet || when == 0 || when > wall ? 0 : (wall - when) / 1000;
    } else if (quiet) {
        t->lag_ms = 0;
    }
    if (now - f->looked_at < LOOK_US)
        return ERR_OK;
    f->looked_at = now;
    enum err noted = same_tables(t, false, e); /* before marks move past rows that were missed */
    if (noted == ERR_OK)
        noted = follower_gap_note(t, quiet, e);
    if (noted != ERR_OK)
        return noted;
    if (f->stream != NULL)
        return follower_feed_watch_slot(t, e);
    double seconds = 0;
    enum err code = quiet ? ERR_OK : outbox_lag(f->outbox, &seconds, e);
    if (code == ERR_OK && !quiet)
        t->lag_ms = seconds > 0 ? (uint64_t)(seconds * 1000) : 0;
    return code;
}

/* --- the mode --- */

static enum err feed_once(struct follower *t, struct error *e)
{
    struct follower_feed *f = &t->feed;
    struct feed_batch batch;
    uint64_t request = t->request;
    enum err code = source_take(t->source, e);
    if (code == ERR_OK)
        code = note_request(t, e);
    source_rest(t->source);
    if (code == ERR_OK)
        code = f->stream != NULL ? stream_next(f->stream, &batch, WAIT_MS, e)
                                 : outbox_next(f->outbox, &batch, WAIT_MS, e);
    if (code == ERR_OK)
        code = source_take(t->source, e);
    if (code == ERR_OK && batch.count > 0)
        code = add_batch(t, &batch, e);
    if (code == ERR_OK)
        code = f->stream != NULL ? stream_confirm(f->stream, batch.mark, e)
                                 : outbox_confirm(f->outbox, batch.mark, e);
    if (code != ERR_OK)
        return code;
    bool quiet = f->stream != NULL ? batch.count == 0 : batch.all;
    if (f->stream != NULL && f->request != 0 && stream_position(f->stream)->complete >= f->request_lsn)
        code = answer(t, f->request, e);
    else if (f->outbox != NULL && quiet && request > t->done && request <= t->request)
        code = answer(t, request, e);
    return code == ERR_OK ? look(t, quiet, e) : code;
}

enum err follower_feed_step(struct follower *t, struct error *e)
{
    enum err code = feed_once(t, e);
    source_rest(t->source);
    return code;
}
