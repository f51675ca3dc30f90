/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_HANDLE_H
#define SHARD_VIEW_HANDLE_H
/* A filter as jobs and administration have it: a client, its names, and its view as a summary (view.h).
 * Blocking. All errors: ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/redis/script_call.h"
#include "shard/filter/view.h"

/* The client is borrowed. Zero-initialise, then fill the first two; handle_fini() at the end. */
struct handle {
    struct sync_client *redis;
    struct names names; /* with the incarnation of the view that was loaded last */
    bool requests_wait; /* for what this thread does: what takes long is ERR_ASIDE */
    uint64_t keys[2];   /* of the generation in each slot, as the view had it when it was loaded last */
    uint64_t keys_of[2];
    struct script_call call; /* storage */
};

void handle_fini(struct handle *f);

/* Have all coordinators look at the view, by P:events. A hint. */
void handle_announce(struct handle *f);

/* The address of what the filter has but for its shards. */
static inline unsigned handle_home(const struct handle *f)
{
    return sync_client_home(f->redis, &f->names);
}

/* The tag of @g's blocks under f->names.incarnation. */
uint16_t handle_tag(const struct handle *f, const struct generation *g);

/* Load the view; sets f->names.incarnation. ERR_NOT_FOUND: there is none, or the filter is being deleted:
 * out->deleting tells. ERR_CONFIG: its shards lie on a node that is not configured here. ERR_FORMAT,
 * ERR_PARSE, ERR_WRONG_TYPE: the text names the key. After any error but ERR_NOT_FOUND the filter must be
 * left alone. */
MUST_CHECK enum err handle_load(struct handle *f, struct view *out, struct error *e);
/* The same, but the view of a filter that is being deleted is found. */
MUST_CHECK enum err handle_load_any(struct handle *f, struct view *out, struct error *e);

/* The job's view is still in Redis. ERR_FENCED: it is gone, or another's. */
MUST_CHECK enum err handle_look(struct handle *f, const struct view *v, struct error *e);

/* There is no filter, and @mutex is held: nothing of the search for it stays in Redis. */
MUST_CHECK enum err handle_drop_nothing(struct handle *f, const char *mutex, struct error *e);

/* Set the time (wall clock, ms; 0: never) at which the filter is to be deleted, if @conditions (a set of the
 * bits below) hold. @only_ask: change nothing. *@done: false where they do not, or where there was nothing to
 * take away. ERR_NOT_FOUND: there is no filter. ERR_WRONG_TYPE. */
enum { EXPIRE_NX = 1, EXPIRE_XX = 2, EXPIRE_GT = 4, EXPIRE_LT = 8 };
MUST_CHECK enum err handle_expire(struct handle *f, uint64_t at_ms, unsigned conditions, bool only_ask,
                                  bool *done, struct error *e);
#endif
