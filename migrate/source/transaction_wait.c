/* SPDX-License-Identifier: MIT */
/* The happy path is: transaction_wait_begin() notes the virtual ids of all open transactions.
 * transaction_wait_poll() first waits until all of these are gone, then notes the existing prepared
 * transactions and waits until all of those are gone, then waits until the server has on disk what they
 * wrote. (A crash would undo what was seen, and hand out again transaction ids and sequence numbers below a
 * horizon or a mark.) A prepared transaction becomes visible before its virtual id disappears, and disappears
 * after its rows are visible, so none can hide between the two steps. Possible failure modes are: a poll
 * fails (nothing is forgotten; poll again, over a source that works); the server is a standby (refused: it
 * cannot see the transactions that write). */
#include "migrate/source/transaction_wait.h"

#include <stdlib.h>
#include <string.h>

#include "migrate/source/result.h"
#include "migrate/source/source_internal.h"

enum stage { WAITING_FOR_OPEN, WAITING_FOR_PREPARED, WAITING_FOR_DISK, SETTLED };

struct transaction_wait {
    struct source *source;
    enum stage stage;
    char *noted;                      /* an array in the server's text form */
    char barrier[SOURCE_BARRIER_MAX]; /* must be on disk; "": not known yet */
};

/* Run the statement that notes transactions; its column "noted" replaces the noted array. @standby NULL: the
 * statement does not tell whether the server is one. */
static enum err note(struct transaction_wait *settle, const char *statement, bool *standby, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = source_run(settle->source, 0, statement, NULL, &r, e);
    if (err != ERR_OK)
        return err;
    if (standby != NULL)
        *standby = result_is_true(r, "is_standby");
    char *noted = strdup(result_text(r, "noted"));
    if (noted == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    free(settle->noted);
    settle->noted = noted;
    return ERR_OK;
}

enum err transaction_wait_begin(struct transaction_wait **out, struct source *s, struct error *e)
{
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    struct transaction_wait *settle = calloc(1, sizeof(*settle));
    if (settle == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    settle->source = s;
    bool standby = false;
    err = note(settle, "settle_open", &standby, e);
    if (err == ERR_OK && standby)
        err = error_set(e, ERR_CONFIG,
                        "the server is a standby, which cannot see the open transactions of its primary");
    if (err != ERR_OK) {
        transaction_wait_free(settle);
        return error_prefix(e, err, "settle");
    }
    *out = settle;
    return ERR_OK;
}

/* Copy as much of @text as fits, without splitting a character. */
static void copy_text(char *out, size_t size, const char *text)
{
    size_t n = strnlen(text, size - 1);
    if (text[n] != '\0')
        while (n > 0 && ((unsigned char)text[n] & 0xC0u) == 0x80u)
            n--;
    memcpy(out, text, n);
    out[n] = '\0';
}

/* Which of the noted transactions still exist. */
static enum err look(struct transaction_wait *settle, const char *statement,
                     struct transaction_wait_blocker *blockers, size_t blocker_max, size_t *waiting,
                     struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = source_run(settle->source, 0, statement, SQL_BINDINGS({"noted", settle->noted}), &r, e);
    if (err != ERR_OK)
        return err;
    *waiting = (size_t)PQntuples(r);
    for (int row = 0; row < (int)*waiting && row < (int)blocker_max; row++) {
        struct transaction_wait_blocker *b = &blockers[row];
        b->pid = (int)strtol(PQgetvalue(r, row, 0), NULL, 10);
        b->age_seconds = PQgetisnull(r, row, 1) ? -1.0 : strtod(PQgetvalue(r, row, 1), NULL);
        copy_text(b->application, sizeof(b->application), PQgetvalue(r, row, 2));
        copy_text(b->query, sizeof(b->query), PQgetvalue(r, row, 3));
    }
    return ERR_OK;
}

/* An own commit, even asynchronous, makes the server flush its WAL soon if no other session does. */
static enum err look_at_disk(struct transaction_wait *settle, bool *done, struct error *e)
{
    char flushed[8] = "";
    bool first = settle->barrier[0] == '\0';
    enum err err = first ? source_barrier(settle->source, settle->barrier, e) : ERR_OK;
    if (err == ERR_OK)
        err = source_read(settle->source, 0, "flushed", SQL_BINDINGS({"barrier", settle->barrier}), flushed,
                          sizeof(flushed), e);
    *done = strcmp(flushed, "t") == 0;
    return err != ERR_OK || !first || *done ? err : source_run(settle->source, 0, "instant", NULL, NULL, e);
}

enum err transaction_wait_poll(struct transaction_wait *settle, bool *done,
                               struct transaction_wait_blocker *blockers, size_t blocker_max, size_t *waiting,
                               struct error *e)
{
    enum err err = ERR_OK;
    *waiting = 0;
    if (settle->stage == WAITING_FOR_OPEN) {
        err = look(settle, "settle_waiting", blockers, blocker_max, waiting, e);
        if (err == ERR_OK && *waiting == 0) {
            err = note(settle, "prepared_open", NULL, e);
            if (err == ERR_OK)
                settle->stage = WAITING_FOR_PREPARED;
        }
    }
    if (err == ERR_OK && settle->stage == WAITING_FOR_PREPARED) {
        err = look(settle, "prepared_waiting", blockers, blocker_max, waiting, e);
        if (err == ERR_OK && *waiting == 0)
            settle->stage = WAITING_FOR_DISK;
    }
    if (err == ERR_OK && settle->stage == WAITING_FOR_DISK) {
        bool flushed;
        err = look_at_disk(settle, &flushed, e);
        if (err == ERR_OK && flushed)
            settle->stage = SETTLED;
    }
    *done = settle->stage == SETTLED;
    return err == ERR_OK ? ERR_OK : error_prefix(e, err, "settle");
}

void transaction_wait_free(struct transaction_wait *settle)
{
    if (settle == NULL)
        return;
    free(settle->noted);
    free(settle);
}
