/* SPDX-License-Identifier: MIT */
/* Follows rows by ids. The happy path is: each round adds the rows between the ids seen so far and the
 * largest ones, and begins a settle if none is under way. When it has ended, nothing can be committed at or
 * below the ids noted before it, so the rows up to there are read a last time and the safe marks move.
 * Possible failure modes are: a transaction stays open for long (rows above the safe marks are reread
 * meanwhile, so that late rows are found before it ends, less and less often the longer a reread takes); the
 * process dies (the next follower begins at the safe marks); ids go back (TRUNCATE RESTART IDENTITY, an
 * earlier state of the database, a deleted row with a large id: every mark goes back with them, as a lower
 * mark only reads more). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/follow/follower_internal.h"
#include "migrate/source/scan.h"

enum {
    PAGE_ROWS = 10000,
    REREAD_US = 1000 * 1000, /* pause between two rereads of the same rows, at least */
    REREAD_SHARE = 20,       /* and at least this many times as long as the last reread took */
    LOOK_SHARE = 5,          /* the same, between two looks at the largest ids, or at the tables */
    NAP_US = 50 * 1000,
};

/* --- reading --- */

static void put_id(char out[SOURCE_ID_MAX], int64_t id)
{
    if (id == INT64_MIN)
        out[0] = '\0';
    else
        (void)snprintf(out, SOURCE_ID_MAX, "%" PRId64, id);
}

static enum err read_pages(struct follower *t, struct scan_range *range, struct error *e)
{
    SCOPED(buffer_fini) struct buffer keys = {0};
    const struct scan_options options = {
        .limit = PAGE_ROWS, .timeout_ms = t->o->postgres_timeout_ms, .row = follower_take_row, .arg = &keys};
    enum err code = ERR_OK;
    for (bool ended = false; code == ERR_OK && !ended;) {
        size_t rows;
        buffer_clear(&keys);
        code = scan_page(t->source, range, &options, &rows, &ended, e);
        if (code == ERR_OK)
            code = follower_add(t, &keys, e);
        if (code == ERR_OK)
            code = follower_tend(t, e);
        source_rest(t->source); /* let other sources use the connection */
        if (code == ERR_OK)
            code = source_take(t->source, e);
    }
    return code;
}

enum err follower_read_range(struct follower *t, unsigned table, int64_t after, int64_t upto, struct error *e)
{
    struct scan_range range = {.table = table};
    put_id(range.after, after);
    put_id(range.upto, upto);
    return after < upto ? read_pages(t, &range, e) : ERR_OK;
}

enum err follower_read_all(struct follower *t, unsigned table, struct error *e)
{
    uint64_t before = t->rows;
    enum err code = read_pages(t, &(struct scan_range){.table = table}, e);
    if (code == ERR_OK)
        log_info("follow_read_again", "filter=%s table=%s rows=%" PRIu64, log_quote(t->o->filter),
                 log_quote(source_table(t->source, table)), t->rows - before);
    return code;
}

/* --- open, close --- */

enum err follower_largest(struct follower *t, unsigned table, int64_t *out, struct error *e)
{
    char id[SOURCE_ID_MAX];
    *out = INT64_MIN;
    enum err code = source_last_id(t->source, table, id, e);
    return code != ERR_OK || id[0] == '\0' ? code : follower_text_to_id(id, out, e);
}

static enum err write_mark(struct follower *t, unsigned table, struct error *e)
{
    return follower_mark_write_id(t, table, t->keyset.safe[table], e);
}

/* No mark of the table stays above @largest, its largest id. */
static enum err go_back(struct follower *t, unsigned table, int64_t largest, struct error *e)
{
    struct follower_keyset *k = &t->keyset;
    if (k->noted.marks != NULL && k->noted.marks[table] > largest)
        k->noted.marks[table] = largest;
    if (k->seen[table] > largest)
        k->seen[table] = largest;
    if (k->safe[table] <= largest)
        return ERR_OK;
    k->safe[table] = largest;
    return write_mark(t, table, e);
}

enum err follower_keyset_open(struct follower *t, struct error *e)
{
    struct follower_keyset *k = &t->keyset;
    t->impossible = !source_id_is_integer(t->source);
    if (t->impossible)
        return error_set(e, ERR_CONFIG, "rows that plain SQL writes are not followed: " FOLLOWER_NO_INTEGER);
    unsigned tables = source_tables(t->source);
    *k =
        (struct follower_keyset){.tables = tables, .reread_pause = REREAD_US, .complete_at = clock_mono_us()};
    k->safe = calloc(tables, sizeof(*k->safe));
    k->seen = calloc(tables, sizeof(*k->seen));
    enum err code = k->safe == NULL || k->seen == NULL ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
    for (unsigned i = 0; i < tables && code == ERR_OK; i++) {
        bool found;
        int64_t largest = INT64_MIN;
        code = follower_mark_of_table(t, i, &found, &k->safe[i], e);
        if (code == ERR_OK)
            code = follower_largest(t, i, &largest, e);
        if (code == ERR_OK && !found) {
            k->safe[i] = largest;
            code = write_mark(t, i, e);
        } else if (code == ERR_OK) {
            code = go_back(t, i, largest, e);
        }
        k->seen[i] = k->safe[i];
    }
    return code;
}

void follower_forget(struct follower_noted *n)
{
    transaction_wait_free(n->settle);
    free(n->marks);
    *n = (struct follower_noted){.settle = NULL};
}

void follower_keyset_close(struct follower *t)
{
    struct follower_keyset *k = &t->keyset;
    follower_forget(&k->noted);
    free(k->safe);
    free(k->seen);
    *k = (struct follower_keyset){.tables = 0};
}

/* --- a round --- */

static enum err read_new(struct follower *t, struct error *e)
{
    struct follower_keyset *k = &t->keyset;
    enum err code = ERR_OK;
    k->round_pause = 0;
    for (unsigned i = 0; i < k->tables && code == ERR_OK; i++) {
        int64_t largest = INT64_MIN;
        uint64_t began = clock_mono_us();
        code = follower_largest(t, i, &largest, e);
        k->round_pause += (clock_mono_us() - began) * LOOK_SHARE;
        if (code == ERR_OK && largest < k->seen[i])
            code = go_back(t, i, largest, e);
        if (code == ERR_OK)
            code = follower_read_range(t, i, k->seen[i], largest, e);
        if (code == ERR_OK)
            k->seen[i] = largest;
    }
    return code;
}

/* Note the ids seen so far, and begin a settle. @request: received before they were read. */
static enum err note(struct follower *t, uint64_t request, struct error *e)
{
    struct follower_keyset *k = &t->keyset;
    k->noted.request = request;
    k->noted.marks = calloc(k->tables, sizeof(*k->noted.marks));
    if (k->noted.marks == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    memcpy(k->noted.marks, k->seen, k->tables * sizeof(*k->seen));
    return transaction_wait_begin(&k->noted.settle, t->source, e);
}

/* Nothing can be committed up to these marks, and all rows up to there are added. */
static enum err move_marks(struct follower *t, const int64_t *marks, struct error *e)
{
    struct follower_keyset *k = &t->keyset;
    uint64_t began = clock_mono_us();
    enum err code = follower_unchanged(t, e);
    k->round_pause += (clock_mono_us() - began) * LOOK_SHARE;
    for (unsigned i = 0; i < k->tables && code == ERR_OK; i++) {
        if (marks[i] <= k->safe[i])
            continue;
        k->safe[i] = marks[i];
        code = write_mark(t, i, e);
    }
    return code;
}

/* Reread the rows above the safe marks, which then move to those noted, if the settle has ended. */
static enum err read_again(struct follower *t, bool ended, struct error *e)
{
    struct follower_keyset *k = &t->keyset;
    uint64_t began = clock_mono_us();
    enum err code = ERR_OK;
    for (unsigned i = 0; i < k->tables && code == ERR_OK; i++)
        code = follower_read_range(t, i, k->safe[i], k->seen[i], e);
    if (code == ERR_OK && ended)
        code = move_marks(t, k->noted.marks, e);
    uint64_t now = clock_mono_us(), pause = (now - began) * REREAD_SHARE;
    k->reread_pause = pause < REREAD_US ? REREAD_US : pause;
    k->reread_at = now;
    return code;
}

static bool is_behind(const struct follower_keyset *k)
{
    for (unsigned i = 0; i < k->tables; i++)
        if (k->safe[i] < k->seen[i])
            return true;
    return false;
}

static enum err end_settle(struct follower *t, struct error *e)
{
    struct follower_keyset *k = &t->keyset;
    struct transaction_wait_blocker blocker;
    size_t waiting;
    bool ended = false;
    enum err code = ERR_OK;
    uint64_t now = clock_mono_us();
    if (now - k->reread_at < REREAD_US)
        return ERR_OK;
    if (k->noted.marks != NULL)
        code = transaction_wait_poll(k->noted.settle, &ended, &blocker, 1, &waiting, e);
    bool due = ended || (is_behind(k) && now - k->reread_at >= k->reread_pause);
    if (code == ERR_OK && due)
        code = read_again(t, ended, e);
    if (code == ERR_OK && ended && k->noted.request > t->done && k->noted.request <= t->request) {
        t->done = k->noted.request;
        code = follower_hold(t, e);
    }
    if (ended)
        follower_forget(&k->noted);
    return code;
}

static enum err round_of(struct follower *t, struct error *e)
{
    struct follower_keyset *k = &t->keyset;
    uint64_t request = t->request, began = clock_mono_us();
    enum err code = read_new(t, e);
    if (code == ERR_OK && k->noted.marks == NULL && (is_behind(k) || request > t->done))
        code = note(t, request, e);
    if (code == ERR_OK)
        code = end_settle(t, e);
    if (code == ERR_OK)
        k->complete_at = began;
    return code;
}

enum err follower_keyset_step(struct follower *t, struct error *e)
{
    struct follower_keyset *k = &t->keyset;
    uint64_t now = clock_mono_us();
    uint64_t interval = (uint64_t)t->o->interval_ms * 1000;
    if (k->round_at != 0 && now - k->round_at < (k->round_pause > interval ? k->round_pause : interval)) {
        clock_sleep_us(NAP_US);
        return ERR_OK;
    }
    k->round_at = now;
    enum err code = source_take(t->source, e);
    if (code == ERR_OK)
        code = follower_same_tables(t, false, e);
    if (code == ERR_OK)
        code = round_of(t, e);
    source_rest(t->source);
    t->lag_ms = (clock_mono_us() - k->complete_at) / 1000;
    return code;
}
