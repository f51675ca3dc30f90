/* SPDX-License-Identifier: MIT */
/* If ids are integers, a feed moves the safe marks in P:{F}:marks, too. A follower by ids that runs after the
 * feed (after a fallback, or in another mode), or a feed with a new slot, begins there. The happy path is:
 * note the largest ids, begin a settle, wait for its end, wait until the feed has reported all that was
 * committed by then. Then every row at or below the noted ids is added. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "expansion/follow/follower_internal.h"

static enum err begin(struct follower *t, struct error *e)
{
    struct follower_noted *gap = &t->feed.gap;
    gap->marks = calloc(source_tables(t->source), sizeof(*gap->marks));
    enum err code = gap->marks == NULL ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
    for (unsigned i = 0; i < source_tables(t->source) && code == ERR_OK; i++)
        code = follower_largest(t, i, &gap->marks[i], e);
    t->feed.gap_lsn = 0;
    return code == ERR_OK ? transaction_wait_begin(&gap->settle, t->source, e) : code;
}

static bool keeps_marks(const struct follower *t)
{
    return t->o->always && source_id_is_integer(t->source);
}

/* Add the rows above the safe marks. */
static enum err read_gap(struct follower *t, struct error *e)
{
    uint64_t before = t->rows;
    enum err code = ERR_OK;
    for (unsigned i = 0; keeps_marks(t) && i < source_tables(t->source) && code == ERR_OK; i++) {
        bool found;
        int64_t from, upto = INT64_MIN;
        code = follower_mark_of_table(t, i, &found, &from, e);
        if (code == ERR_OK && found)
            code = follower_largest(t, i, &upto, e);
        if (code == ERR_OK && found)
            code = follower_read_range(t, i, from, upto, e);
    }
    if (code == ERR_OK && t->rows > before)
        log_info("follow_gap_filled", "filter=%s rows=%" PRIu64, log_quote(t->o->filter), t->rows - before);
    return code;
}

/* Where a slot is, as the mark "position" has it: the server's history, then the place in its log, each of 16
 * digits, so that texts of one history compare as places do. */
enum { HISTORY_DIGITS = 16, POSITION_MAX = 2 * HISTORY_DIGITS + 1 };

static void position_text(const struct follower *t, uint64_t lsn, char out[POSITION_MAX])
{
    (void)snprintf(out, POSITION_MAX, "%016" PRIx64 "%016" PRIx64, t->feed.history, lsn);
}

/* A slot that is beyond this is another one, or was moved by somebody else. */
static enum err note_position(struct follower *t, struct error *e)
{
    const struct follower_feed *f = &t->feed;
    char text[POSITION_MAX];
    position_text(t, f->stream != NULL ? stream_position(f->stream)->confirmed : 0, text);
    return follower_mark_write(t, "position", text, e);
}

void follower_gap_leave(struct follower *t)
{
    struct error unused;
    if (t->held && t->feed.stream != NULL && !t->feed.gap_open && keeps_marks(t))
        (void)!note_position(t, &unused);
}

/* A transaction may be in the log before the slot's first position, so that the slot does not send it, while
 * others do not see its rows yet: its commit waits for a disk, or for a standby. So the gap is read at once,
 * and once more when all that was open then has ended. */
static enum err write_marks(struct follower *t, struct error *e)
{
    enum err code = t->feed.gap_open ? read_gap(t, e) : ERR_OK;
    if (code == ERR_OK)
        code = note_position(t, e);
    t->feed.gap_open &= code != ERR_OK;
    for (unsigned i = 0; i < source_tables(t->source) && code == ERR_OK; i++)
        code = follower_mark_write_id(t, i, t->feed.gap.marks[i], e);
    follower_forget(&t->feed.gap);
    return code;
}

enum err follower_gap_note(struct follower *t, bool quiet, struct error *e)
{
    struct follower_feed *f = &t->feed;
    struct transaction_wait_blocker blocker;
    size_t waiting;
    bool done = false;
    if (!keeps_marks(t))
        return ERR_OK;
    if (f->gap.marks == NULL)
        return begin(t, e);
    if (f->gap_lsn != 0) { /* has the feed reported all that had ended when the settle ended? */
        done = f->stream != NULL ? stream_position(f->stream)->complete >= f->gap_lsn : quiet;
        return done ? write_marks(t, e) : ERR_OK;
    }
    enum err code = transaction_wait_poll(f->gap.settle, &done, &blocker, 1, &waiting, e);
    if (code != ERR_OK || !done)
        return code;
    f->gap_lsn = 1;
    return f->stream != NULL ? stream_server_lsn(t->source, &f->gap_lsn, e) : ERR_OK;
}

enum err follower_gap_fill(struct follower *t, uint64_t at, struct error *e)
{
    char was[POSITION_MAX], now[POSITION_MAX];
    position_text(t, at, now);
    enum err code = follower_mark_read(t, "position", was, sizeof(was), e);
    bool is_known = code == ERR_OK && strncmp(was, now, HISTORY_DIGITS) == 0 && strcmp(now, was) <= 0;
    t->feed.gap_open = keeps_marks(t) && !is_known;
    return code == ERR_OK && t->feed.gap_open ? read_gap(t, e) : code;
}

enum { REPORTED_MAX = 320 };

static void name_reported(const struct follower *t, unsigned table, char out[REPORTED_MAX])
{
    (void)snprintf(out, REPORTED_MAX, "reported %s", source_table(t->source, table));
}

enum err follower_gap_distrust(struct follower *t, struct error *e)
{
    char field[REPORTED_MAX];
    enum err code = ERR_OK;
    for (unsigned i = 0; t->o->always && i < source_tables(t->source) && code == ERR_OK; i++) {
        name_reported(t, i, field);
        code = follower_mark_write(t, field, "0", e); /* as good as no state */
    }
    return code;
}

static enum err compare(struct follower *t, unsigned table, int64_t reported, struct error *e)
{
    char field[REPORTED_MAX], was[24], now[24];
    name_reported(t, table, field);
    (void)snprintf(now, sizeof(now), "%" PRId64, reported);
    enum err code = follower_mark_read(t, field, was, sizeof(was), e);
    if (code != ERR_OK || strcmp(was, now) == 0)
        return code;
    code = was[0] == '\0' ? follower_mark_write(t, "position", NULL, e) : follower_read_all(t, table, e);
    return code == ERR_OK ? follower_mark_write(t, field, now, e) : code;
}

enum err follower_gap_compare(struct follower *t, const int64_t *reported, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; t->o->always && i < source_tables(t->source) && code == ERR_OK; i++)
        code = compare(t, i, reported[i], e);
    return code;
}
