/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_HANDLE_H
#define SHARD_VIEW_HANDLE_H
/* A filter for jobs and administration: a client, the filter's names, and its view as a summary (view.h).
 * Blocking. All functions may return ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/redis/script_call.h"
#include "shard/filter/view.h"

/* @redis is borrowed. Zero-initialise, fill in @redis and @names, and call handle_fini() at the end. */
struct handle {
    struct sync_client *redis;
    struct names names;      /* with the incarnation of the view that was loaded last */
    bool requests_wait;      /* requests wait for this thread: long work is refused with ERR_ASIDE */
    struct script_call call; /* scratch: the script that is being written or run */
};

void handle_fini(struct handle *f);

/* Let all coordinators load the view, by a message on P:events. It is a hint. */
void handle_announce(struct handle *f);

/* The address of all keys of the filter except its shards. */
static inline unsigned handle_home(const struct handle *f)
{
    return sync_client_home(f->redis, &f->names);
}

/* Load the view, and set f->names.incarnation. ERR_NOT_FOUND: there is no view, or the filter is being
 * deleted (out->deleting). ERR_CONFIG: its shards lie on a node that is not configured here. ERR_FORMAT,
 * ERR_PARSE, ERR_WRONG_TYPE: the text names the key. After any error except ERR_NOT_FOUND do not change the
 * filter. */
MUST_CHECK enum err handle_load(struct handle *f, struct view *out, struct error *e);
/* As above, but also load the view of a filter that is being deleted. */
MUST_CHECK enum err handle_load_any(struct handle *f, struct view *out, struct error *e);

/* Check that the view @v of a job is still in Redis. ERR_FENCED: it is gone, or another view is there. */
MUST_CHECK enum err handle_look(struct handle *f, const struct view *v, struct error *e);

/* For a caller that holds @mutex and found no filter: delete what the search for it left in Redis. */
MUST_CHECK enum err handle_drop_nothing(struct handle *f, const char *mutex, struct error *e);

/* Set the time at which the filter of f->names is to be deleted (wall clock, ms; 0: never), if @conditions
 * hold (a set of the bits below). *@done: false if they do not hold, or if there was no time to remove.
 * ERR_NOT_FOUND: there is no filter of that incarnation. ERR_WRONG_TYPE. */
enum { EXPIRE_NX = 1, EXPIRE_XX = 2, EXPIRE_GT = 4, EXPIRE_LT = 8 };
MUST_CHECK enum err handle_expire(struct handle *f, uint64_t at_ms, unsigned conditions, bool *done,
                                  struct error *e);
#endif
