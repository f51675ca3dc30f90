/* SPDX-License-Identifier: MIT */
/* The happy path is: stream_next() takes message after message, keeps the ids of rows and the positions of
 * all messages, and waits if nothing has come. Meanwhile it reports the confirmed position to the server.
 * Possible failure modes are: the server ends the stream, or a message cannot be decoded. Then the rows taken
 * before are handed out, and the next call returns the error. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "migrate/change/stream_internal.h"

enum {
    ANSWER_MS = 100,       /* delay of a reply to the server if it has no news */
    NEWS_MS = 1000,        /* a confirmed position is reported after this time */
    BATCH_BYTES = 1 << 20, /* ids of a batch take at most these bytes */
    MESSAGES_MAX = 1000,   /* messages that one call takes: all may be without rows */
    DATA_HEADER = 25,      /* 'w', start and end of the data, time */
    KEEPALIVE_LENGTH = 18, /* 'k', end of the log, time, whether to answer */
    REPORT_LENGTH = 34,    /* 'r', written, flushed, applied, time, whether to answer */
    SECOND_US = 1000 * 1000,
};

/* Numbers in the replication protocol's byte order. */

static uint64_t get_u64(const char *p)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | (unsigned char)p[i];
    return value;
}

static void put_u64(char *p, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        p[i] = (char)(value & 0xFF);
}

/* --- reports to the server --- */

enum err stream_report(struct stream *s, struct error *e)
{
    char message[REPORT_LENGTH] = {'r'};
    uint64_t confirmed = s->progress.confirmed;
    put_u64(message + 1, s->progress.received);
    put_u64(message + 9, confirmed);
    put_u64(message + 17, confirmed);
    put_u64(message + 25, clock_wall_us() - (uint64_t)PGOUTPUT_EPOCH_S * SECOND_US);
    enum err err = connection_both_send(s->connection, message, sizeof(message), e);
    s->told = confirmed;
    s->told_at = clock_mono_us();
    if (confirmed >= s->asked)
        s->asked = 0;
    return err;
}

/* A server that shuts down asks again after every report until all is confirmed. Delay reports without news,
 * so that this does not become a busy loop. */
static enum err report_if_due(struct stream *s, struct error *e)
{
    bool news = s->progress.confirmed > s->told;
    if (news && s->asked != 0)
        return stream_report(s, e);
    unsigned most_ms = s->asked != 0 ? ANSWER_MS : news ? NEWS_MS : s->interval_ms;
    unsigned ms = most_ms < s->interval_ms ? most_ms : s->interval_ms;
    return clock_mono_us() - s->told_at >= ms * UINT64_C(1000) ? stream_report(s, e) : ERR_OK;
}

/* --- messages --- */

/* The buffer of ids may move while it grows, so a row holds only its id's length until the batch is
 * complete. */
static enum err take_row(struct stream *s, const struct pgoutput_change *change, struct error *e)
{
    const struct stream_relation *known = stream_find_relation(s, change->relid);
    if (known == NULL)
        return error_set(e, ERR_PARSE, "pgoutput: a row of relation %" PRIu32 ", which was not described",
                         change->relid);
    if (known->table == SIZE_MAX)
        return ERR_OK;
    const struct stream_table *table = &s->options.tables[known->table];
    size_t before = s->ids.length;
    enum err err = pgoutput_put_id(change, known->columns, table->id_count, &s->ids, e);
    size_t length = s->ids.length - before;
    if (err == ERR_OK)
        buffer_append(&s->ids, "", 1);
    if (err == ERR_OK && buffer_failed(&s->ids))
        err = error_set(e, ERR_NOMEM, "out of memory");
    if (err != ERR_OK)
        return error_prefix(e, err, "table %s", table->table);
    s->rows[s->row_count++] = (struct feed_row){.relid = s->oids[known->table], .length = length};
    if (s->xid_count == 0 || s->xids[s->xid_count - 1] != s->xid)
        s->xids[s->xid_count++] = s->xid;
    stream_progress_row(&s->progress, s->commit_us);
    return ERR_OK;
}

static enum err take_change(struct stream *s, const char *bytes, size_t length, struct error *e)
{
    struct pgoutput_message m;
    enum err err = pgoutput_decode(&m, bytes, length, e);
    if (err != ERR_OK)
        return err;
    switch (m.kind) {
    case PGOUTPUT_BEGIN:
        s->xid = m.begin.xid;
        s->commit_us = m.begin.commit_us;
        stream_progress_begin(&s->progress);
        return ERR_OK;
    case PGOUTPUT_COMMIT:
        stream_progress_commit(&s->progress, m.commit.end_lsn);
        return ERR_OK;
    case PGOUTPUT_RELATION:
        return stream_describe(s, &m.relation, e);
    case PGOUTPUT_INSERT:
    case PGOUTPUT_UPDATE:
        return take_row(s, &m.change, e);
    case PGOUTPUT_DELETE:
    case PGOUTPUT_TRUNCATE:
    case PGOUTPUT_ORIGIN:
    case PGOUTPUT_TYPE:
    case PGOUTPUT_MESSAGE:
        break;
    }
    return ERR_OK;
}

static enum err take_message(struct stream *s, const char *data, size_t length, struct error *e)
{
    if (length >= DATA_HEADER && data[0] == 'w') {
        stream_progress_receive(&s->progress, get_u64(data + 1));
        return take_change(s, data + DATA_HEADER, length - DATA_HEADER, e);
    }
    if (length != KEEPALIVE_LENGTH || data[0] != 'k')
        return error_set(e, ERR_PARSE, "Postgres: a replication message 0x%02x of %zu bytes",
                         length == 0 ? 0u : (unsigned char)data[0], length);
    uint64_t end = get_u64(data + 1);
    stream_progress_idle(&s->progress, end);
    if (data[KEEPALIVE_LENGTH - 1] != 0)
        s->asked = end;
    return ERR_OK;
}

/* --- taking --- */

/* @e holds the server's text; add what it means and the remedy. */
static enum err unreadable(const struct stream *s, struct error *e)
{
    return error_prefix(e, ERR_LOST,
                        "replication slot %s cannot be read (was the publication made, or dropped, after "
                        "it?); drop the slot and rebuild",
                        s->options.slot);
}

/* Explain why the stream ended. */
static enum err ended(const struct stream *s, enum err err, struct error *e)
{
    static const char *const gone[] = {"42704", "55000", "58P01"};
    const char *state = connection_state(s->connection);
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        if (strcmp(state, gone[i]) == 0)
            return unreadable(s, e);
    return err;
}

/* Take one message, if one has come. */
static enum err take_one(struct stream *s, bool *taken, struct error *e)
{
    char *data;
    size_t length;
    *taken = false;
    enum err err = connection_both_take(s->connection, &data, &length, e);
    if (err != ERR_OK)
        return ended(s, err, e);
    /* From Postgres 18 on it is no error if a publication did not exist when a row was written: the server
     * warns and omits the row. */
    if (connection_has_warned(s->connection)) {
        (void)error_set(e, ERR_LOST, "the server has left rows out");
        err = unreadable(s, e);
    } else if (data != NULL) {
        *taken = true;
        err = take_message(s, data, length, e);
    }
    PQfreemem(data);
    return err;
}

/* Take messages until the batch is full, or has rows and no message is left, or the time is over. */
static enum err fill(struct stream *s, struct connection_wait *wait, bool *soft, struct error *e)
{
    for (unsigned messages = 0; s->row_count < STREAM_BATCH_ROWS && s->ids.length < BATCH_BYTES;) {
        bool taken;
        enum err err = take_one(s, &taken, e);
        if (err == ERR_OK)
            err = report_if_due(s, e);
        if (err != ERR_OK)
            return err;
        messages += taken;
        if (s->row_count > 0 && (!taken || messages >= MESSAGES_MAX))
            return ERR_OK;
        if (!taken || messages % MESSAGES_MAX == 0) {
            err = connection_both_wait(s->connection, wait, e);
            *soft = err != ERR_OK && !connection_is_lost(s->connection);
        }
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

static void hand_out(struct stream *s, struct feed_batch *batch)
{
    const char *id = s->ids.data;
    for (size_t i = 0; i < s->row_count; i++) {
        s->rows[i].id = id;
        id += s->rows[i].length + 1;
    }
    *batch = (struct feed_batch){.count = s->row_count, .rows = s->rows, .mark = s->progress.mark};
}

static enum err say_problem(const struct stream *s, struct error *e)
{
    return error_set(e, s->failed, "%s", s->problem.text);
}

static enum err check_started(const struct stream *s, struct error *e)
{
    if (s->failed != ERR_OK)
        return say_problem(s, e);
    return s->started ? ERR_OK : error_set(e, ERR_CONFLICT, "the stream has not begun");
}

static void fail(struct stream *s, enum err err, const struct error *problem)
{
    s->failed = err;
    s->problem = *problem;
}

enum err stream_next(struct stream *s, struct feed_batch *batch, unsigned timeout_ms, struct error *e)
{
    *batch = (struct feed_batch){.rows = s->rows, .mark = s->progress.mark};
    enum err err = check_started(s, e);
    if (err != ERR_OK)
        return err;
    s->row_count = 0;
    s->xid_count = 0;
    buffer_clear(&s->ids);
    struct connection_wait wait = connection_wait_begin(timeout_ms, s->options.watch);
    struct error problem = {{0}};
    bool soft = false;
    err = fill(s, &wait, &soft, &problem);
    if (err != ERR_OK && !soft)
        fail(s, err, &problem);
    hand_out(s, batch);
    bool over = soft && err == ERR_TIMEOUT;
    if (err == ERR_OK || over || s->row_count > 0)
        return ERR_OK;
    return error_set(e, err, "%s", problem.text);
}

enum err stream_confirm(struct stream *s, uint64_t mark, struct error *e)
{
    /* a failed stream confirms, too: stream_close() reports what came before */
    if (s->started && !stream_progress_confirm(&s->progress, mark)) {
        char text[LSN_TEXT];
        return error_set(e, ERR_RANGE, "no batch had the mark %s", lsn_format(mark, text));
    }
    return stream_tend(s, e);
}

enum err stream_tend(struct stream *s, struct error *e)
{
    enum err err = check_started(s, e);
    if (err != ERR_OK)
        return err;
    struct error problem = {{0}};
    err = report_if_due(s, &problem);
    if (err != ERR_OK) {
        fail(s, err, &problem);
        return say_problem(s, e);
    }
    return ERR_OK;
}
