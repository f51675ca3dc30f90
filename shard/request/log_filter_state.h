/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_LOG_FILTER_STATE_H
#define SHARD_REQUEST_LOG_FILTER_STATE_H
/* What requests, ports and the control of a filter share.
 *
 * Locks: the filter's, its parking's, then a port's. */
#include <pthread.h>
#include "base/pool.h"
#include "shard/request/held.h"
#include "shard/request/key_request.h"
#include "shard/request/log_status.h"

TAILQ_HEAD(key_requests, key_request);

struct filter_lane {
    struct log_filter *filter;
    unsigned index;
    struct lane_reader *reader;      /* NULL: none yet */
    struct own *own;                 /* entries of this process that are not folded */
    _Atomic unsigned stalled;        /* enum tail_state; TAIL_COMPLETE: it is not stalled */
    _Atomic uint64_t entries, bytes; /* of applied entries: they only grow */
    _Atomic uint64_t awaited_of;     /* for TAIL_LAYER: the generation, and the layer of it that begins */
    _Atomic unsigned awaited;
};

struct log_filter {
    struct names names;
    const struct nodes *nodes;
    struct budget *budget;
    log_filter_wake_fn *wake;
    void *wake_arg;
    uint8_t writer[LOG_WRITER_BYTES];

    pthread_rwlock_t lock; /* guards the fields below; the control writes them; entries are applied under the
                            * read lock */
    enum log_filter_state state;
    enum err closed;
    char why[200]; /* why it is closed, or not open yet; or what its control fails with while it is open,
                    * other than that nodes do not answer; "": it does not fail */
    uint64_t seed;
    unsigned lanes;
    struct held *slot[2]; /* entries are applied to these; NULL: none */
    unsigned current;     /* the slot that answers */
    uint32_t
        moves; /* cluster_moves() before the last look at which the view accepted all masters. A slot that
                * moved later may have come from one that is not accepted: its blocks do not count */
    bool degraded;
    unsigned degradations; /* how often it became degraded */
    bool is_missing;       /* its view is not there, though nobody has deleted it */
    uint64_t missed;       /* number of the last look at the view that found this */
    bool registered;       /* this process may append */
    enum err adds;         /* not ERR_OK: adds are refused */
    char why_adds[200];
    struct filter_lane lane[LOG_LANES_MAX];

    _Atomic bool is_closed;    /* `state` for readers without the lock */
    _Atomic bool wants_writer; /* an add waits for the registration */
    _Atomic bool wants_look;   /* the view is to be loaded */
    _Atomic uint32_t later;    /* a block's shard has a later writer than the view of this number */
    _Atomic unsigned waiting;  /* adds that found no room: others queue behind them */
    _Atomic size_t
        own_share; /* bytes of a lane's own entries from which on adds wait for a fold; 0: not known yet */
    _Atomic bool wants_fold; /* adds are slowed down, or wait, if that does not come soon */
    _Atomic uint64_t looks;  /* number of looks that were begun */
    _Atomic uint64_t looked; /* when the last look began that found a usable view; clock_mono_us() */
    _Atomic uint64_t term; /* number of the time since which the view has one generation alone, and no notice
                            * was met; 0: another one may begin. Keys that are there need no entry in it */
    _Atomic uint64_t notices; /* number of notices that were met */
    _Atomic uint64_t changes; /* number of changes that the control has told of */
    pthread_mutex_t parking;
    struct key_requests parked; /* until something changes */
    struct log_lost lost;       /* guarded by @parking: a shard that was missed; generation 0: none */
};

enum { SHARE_WHOLE = 1024, SHARE_MUCH = SHARE_WHOLE / 8 * 3 /* from there on folding is asked for */ };

enum key_request_state {
    REQUEST_GOING, /* its port has it */
    REQUEST_PARKED,
    REQUEST_SLOWED, /* until the port's next tick */
    REQUEST_READY,  /* on its way from the parking to its port */
    REQUEST_ASKING,
    REQUEST_UNACKED, /* its keys are in their lanes; replicas or disks have not acknowledged them yet */
    REQUEST_OVER     /* its callback is due */
};

/* For the thread of its port, which may read it at any time; while it is parked, under `parking`, for any. */
static inline void key_request_set(struct key_request *q, enum key_request_state state)
{
    atomic_store_explicit(&q->state, (uint8_t)state, memory_order_relaxed);
}

struct request_port {
    struct event_base *base;
    struct async_client *async;
    struct lane_port *lanes;
    uint64_t now;              /* when the next request begins; 0: by the clock */
    uint64_t timeout_us;       /* of requests that begin */
    struct pool rooms;         /* memory for the keys of requests */
    struct worker_queue ready; /* requests to go on with, or to end */
    struct event *tick;
    bool ticks;  /* @tick is pending: it ends by itself when nothing is active */
    bool inside; /* inside key_check() or key_add(): no callback may run */
    struct key_requests active;
    struct key_requests unacked; /* to ask again at the next tick */
    struct key_requests slowed;  /* to go on with at the next tick */
    unsigned slowness;           /* the next one is slowed where it comes to SHARE_WHOLE */
};

/* --- log_filter.c --- */
/* Their argument is a struct filter_lane. */
extern const struct lane_reader_hooks log_filter_hooks;
/* Park @q, unless something has changed since @changes was read. */
MUST_CHECK bool log_filter_park(struct log_filter *f, struct key_request *q, uint64_t changes);
/* Remove @q from all lists of the filter and the port. */
void log_filter_unpark(struct log_filter *f, struct key_request *q);
/* Something has changed: let all parked requests try again. */
void log_filter_changed(struct log_filter *f);
/* How much of its share of a lane this process has in entries that are not folded: of the fullest lane, of
 * SHARE_WHOLE; or more. Any thread. */
unsigned log_filter_fullness(struct log_filter *f);
/* The number of parked requests. */
unsigned log_filter_parked(struct log_filter *f);
/* A shard is missing in Redis: let the control handle it. Any thread. */
void log_filter_lost(struct log_filter *f, const struct log_lost *lost);
/* The shard that was missed since the last call. False: none. */
bool log_filter_take_lost(struct log_filter *f, struct log_lost *out);
/* Set what the view says. Under the filter's write lock. */
void log_filter_set_degraded(struct log_filter *f, bool degraded);
/* From now on requests get this error. */
void log_filter_close(struct log_filter *f, enum err code, const char *why);

/* --- request_port.c --- */
/* Let the port go on with @q. Any thread; @self is the port of the calling thread. */
void request_port_hand(struct request_port *p, struct key_request *q, const struct request_port *self);
void request_port_begin(struct request_port *p, struct key_request *q);
/* Go on with @q at the next tick. */
void request_port_slow(struct request_port *p, struct key_request *q);

/* --- key_request.c, in the port's thread --- */
void key_request_go_on(struct key_request *q);
/* Ask the nodes to acknowledge the keys of @q, again if they did not. */
void key_request_ask_acks(struct key_request *q);
/* End it with an error, in whatever state it is. */
void key_request_fail(struct key_request *q, enum err code, const char *text);
/* True if a lane has not answered it yet; *@where: the address of the lane's node; *@is_read: the lane does
 * not wait for the control. */
bool key_request_awaits_lane(const struct key_request *q, unsigned *where, bool *is_read);
#endif
