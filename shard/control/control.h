/* SPDX-License-Identifier: MIT */
#ifndef SHARD_CONTROL_CONTROL_H
#define SHARD_CONTROL_CONTROL_H
/* A control keeps a filter of this process in step with the filter's view in Redis: it opens the filter,
 * follows its lanes, eras, generations and layers, and loads its shards. Blocking. One thread calls
 * control_tend() when the last call said so, and soon after the filter's wake was called. Requests go on
 * meanwhile.
 *
 * The control loads the view when something says that it may have changed: a notice in a lane, a lane that
 * cannot be read on, a block or shard of another view, a request that wants to append. It also does so now
 * and then, for changes that nothing tells of. For a filter that nobody asks for it does nothing else.
 *
 * Nothing relies on the view being the latest one: a lane that no longer belongs to the filter cannot be read
 * under its era, and a generation that is no longer current stays right as long as entries are applied to
 * it. */
#include <stdbool.h>
#include "shard/redis/sync_client.h"
#include "shard/log/lane_reader.h"
#include "shard/request/log_filter.h"
#include "shard/request/log_status.h"

struct control;

/* What all controls of one thread share, as they are tended one at a time: connections of an event loop for
 * tail reads, and large memory that is needed only while a control is tended. */
struct control_thread {
    struct event_base *base; /* of tail reads */
    struct async_client *async;
    struct lane_port *port;
    struct sync_client *lease;    /* a lease can be renewed over it while the controls' client has a pipeline
                                   * under way */
    struct log_view *view;        /* of the control that is tended, or was tended last */
    const struct control *viewer; /* that control; NULL: none */
    struct log_position *at, *position; /* scratch, one for each lane */
};

/* @nodes is borrowed. NULL: no memory. */
struct control_thread *control_thread_new(const struct nodes *nodes, unsigned timeout_ms);
/* Call it after the controls are freed, and before their filters are. @t may be NULL. */
void control_thread_free(struct control_thread *t);

enum {
    CONTROL_GRACE_US = 10 * 1000 * 1000,
    LOOK_INTERVAL_US = 1000 * 1000,
    LOOK_RARELY = 10 /* intervals, for a process that is not a registered writer */
};

struct control_options {
    struct log_filter *filter; /* borrowed, like @redis */
    struct sync_client *redis;
    struct control_thread *thread; /* the calling thread's; borrowed */
    const char *owner;   /* the name of this process in the folder's lease, for people; NULL: none. Copied */
    unsigned timeout_ms; /* of a tail read */
    uint64_t retain_us;  /* how long folded entries stay in a lane, for readers that lag behind */
    uint64_t log_max;    /* bytes of a lane in Redis above which adds are refused; 0: LOG_MAX_DEFAULT */
    uint64_t fold_interval_us; /* 0: DUE_INTERVAL_US */
    uint64_t writer_grace_us;  /* a writer that does not answer for so long is removed; 0: CONTROL_GRACE_US */
    uint64_t look_interval_us; /* between two loads of the view without a reason; 0: LOOK_INTERVAL_US */
    unsigned lease_ms;         /* of the folder; 0: LEASE_MS_DEFAULT */
    const struct clean_stop *clean_stop; /* borrowed; NULL: there is none */
    bool folds; /* take the folder's lease when there is something to fold, and fold */
};

/* ERR_NOMEM. */
MUST_CHECK enum err control_new(struct control **out, const struct control_options *o, struct error *e);
/* Pending and later requests get ERR_CANCELLED. @c may be NULL. */
void control_free(struct control *c);

/* True if the next call of control_tend(), at @at, does nothing but look at the view and the masters, as far
 * as is known now. Call it from the control's thread, like the next two. */
bool control_only_looks(const struct control *c, uint64_t at);
/* Ask ahead for that look, as @user of the control's client (shard/redis/ahead.h): for the view, then, once
 * that was read, for what is compared with it. control_tend() comes next. */
void control_ask_ahead(struct control *c, unsigned user);
void control_ask_masters_ahead(struct control *c);

/* Do what is due. *@next: when to call it again at the latest, monotonic us; 0: at once. An error says what
 * could not be done; the next call tries it again, and requests are answered as far as possible meanwhile.
 * ERR_NOT_FOUND: the filter is gone, or is another one; it is closed for good here. */
MUST_CHECK enum err control_tend(struct control *c, uint64_t *next, struct error *e);

/* The state of the filter in this process. Any thread; sends nothing. */
void control_status(struct control *c, struct log_status *out);

/* Leave the register of writers, at a clean stop, when no request is under way or will come. ERR_BUSY:
 * entries of this process are not folded yet; call again. A process that ends without this is removed by the
 * folder (remove.h). */
MUST_CHECK enum err control_leave(struct control *c, struct error *e);
#endif
