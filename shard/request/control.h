/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_CONTROL_H
#define SHARD_REQUEST_CONTROL_H
/* What keeps a filter of this process to its view in Redis: opens it, follows its lanes, eras, generations
 * and layers, loads its shards. Blocking; of one thread, which calls control_tend() when that says so, and
 * soon after the filter's wake was called. Requests go on meanwhile.
 *
 * The view is read when something says that it may have changed: a notice in a lane, a lane that cannot be
 * read on, a block or a shard that another view is about, a request that wants to append; and now and then,
 * for what is told by nothing. A filter that nobody asks for costs that alone, or, with @rest_us, nothing at
 * all: its process leaves the register of writers when all that it added is folded, and sends nothing until
 * the next request, which wakes it (control_idle.c). A control that was just made rests no sooner than after
 * a request.
 *
 * Whatever the view says, nothing relies on it being the latest one: a lane that is not the filter's any more
 * cannot be read under its era, and a generation that is not the current one any more stays right for as long
 * as entries are applied to it. */
#include <stdbool.h>
#include "shard/redis/sync_client.h"
#include "shard/request/control_thread.h"
#include "shard/request/log_filter.h"
#include "shard/request/log_status.h"

struct control;

enum {
    CONTROL_GRACE_US = 10 * 1000 * 1000,
    CONTROL_REST_US = 10 * 1000 * 1000,
    LOOK_INTERVAL_US = 1000 * 1000,
    LOOK_RARELY = 10 /* intervals, where this process is no registered writer */
};

struct control_options {
    struct log_filter *filter; /* borrowed, as the client is */
    struct sync_client *redis;
    struct control_thread *thread; /* the one that calls; borrowed */
    const char *owner;   /* names this process in the folder's lease, for people; NULL: nothing. Copied */
    unsigned timeout_ms; /* of a tail read */
    uint64_t retain_us;  /* how long entries stay in a lane that are folded; for readers that lag behind */
    uint64_t log_max;    /* bytes of a lane in Redis: adds are refused behind that; 0: LOG_MAX_DEFAULT */
    uint64_t fold_interval_us; /* 0: DUE_INTERVAL_US */
    uint32_t shard_bytes;      /* of layers that are added; 0: SHARD_BYTES_DEFAULT */
    double growth;             /* of a filter with a source (grow.h); 0: 2 */
    uint64_t writer_grace_us;  /* a writer that does not answer for so long is removed; 0: CONTROL_GRACE_US */
    uint64_t look_interval_us; /* between two reads of the view that nothing asked for; 0: LOOK_INTERVAL_US */
    unsigned lease_ms;         /* of the folder; 0: LEASE_MS_DEFAULT */
    uint64_t rest_us; /* nobody asks for so long: the control rests; CONTROL_REST_US, say. 0: it never does */
    uint64_t resident_idle_us; /* `resident_idle`: nobody asks for so long: shards leave memory, unless they
                                  are dear to load again (idle.h), and come back when somebody asks; needs
                                  @rest_us. 0: they stay */
    uint64_t dear_bytes;       /* so much of a filter is dear to load again; 0: IDLE_DEAR_BYTES */
    bool folds;                /* while it has the folder's lease, which it takes when there is something to;
                                  control_set_folding() */
};

/* ERR_NOMEM. */
MUST_CHECK enum err control_new(struct control **out, const struct control_options *o, struct error *e);
/* Requests that come are told ERR_CANCELLED. NULL is fine. */
void control_free(struct control *c);

/* Whether this process may fold. Any thread. */
void control_set_folding(struct control *c, bool folds);

/* Do what is due. *@next: when to call it again at the latest, monotonic, in us; 0: at once. An error says
 * what could not be done, and is tried again by the next call; what can be answered is answered in spite of
 * it. ERR_NOT_FOUND: the filter is gone, or is another one, and this one is closed for good. */
MUST_CHECK enum err control_tend(struct control *c, uint64_t *next, struct error *e);

/* How the filter fares in this process. Any thread; nothing is sent. */
void control_status(struct control *c, struct log_status *out);

/* At a clean stop, when no request is under way or will come: leave the register of writers. ERR_BUSY:
 * entries of this process are not folded yet; call again. A process that ends without it is
 * removed by the one that folds (shard/members/remove.h). */
MUST_CHECK enum err control_leave(struct control *c, struct error *e);
#endif
