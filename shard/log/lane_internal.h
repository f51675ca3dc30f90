/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_LANE_INTERNAL_H
#define SHARD_LOG_LANE_INTERNAL_H
/* What lane_reader.c (a reader, as others see it), lane_turn.c (requests that have gathered), lane_round.c
 * (one write and its replies) and lane_port.c (requests of a worker) share.
 *
 * Locks: a reader's, then a port's. A request's state changes under its reader's lock. */
#include <pthread.h>
#include "shard/log/lane_reader.h"

TAILQ_HEAD(lane_requests, lane_request);
TAILQ_HEAD(lane_readers, lane_reader);

enum request_state { REQUEST_QUEUED, REQUEST_TAKEN, REQUEST_ENDED };

enum entry_state {
    ENTRY_UNSENT,
    ENTRY_SENT, /* it may be in the lane */
    ENTRY_MET,
    ENTRY_REFUSED
};

/* An entry has LOG_KEYS_MAX keys, but for the last one of a turn. */
enum { TURN_ENTRIES_MAX = LANE_REQUEST_KEYS_MAX / LOG_KEYS_MAX };
_Static_assert(2 * TURN_ENTRIES_MAX + 5 <= LANE_COMMANDS_MAX, "each with ASKING, and the tail read");

/* What is asked and added together: until a tail read that began after all of it is complete. */
struct turn {
    struct lane_requests requests; /* under the reader's lock */
    unsigned keys, entries;
    uint64_t sequence; /* of the first entry */
    uint8_t state[TURN_ENTRIES_MAX];
    unsigned room; /* keys that the two have room for */
    struct key_hash *hashes;
    uint8_t *fresh;
    enum err refused; /* why an entry was; ERR_OK: none */
    struct error why_refused;
    unsigned redirections; /* one after the other */
    bool with_length;      /* the next round is to tell a lane that is lost from a gap */
};

/* One write and its replies. It lives until the last one, though the reader may have gone on without it. */
struct round {
    struct lane_reader *reader; /* NULL: it has */
    struct lane_commands commands;
    struct tail tail;
    unsigned next, awaited;          /* replies: the one that comes, and how many come */
    unsigned added;                  /* replies to XADD */
    uint8_t entry[TURN_ENTRIES_MAX]; /* whose they are */
    bool missing;                    /* XADD found no lane */
    uint64_t since;                  /* the connection of its replies is there */
    enum err code;                   /* the first error */
    struct error why;
    struct slot_redirect redirect;
};

struct lane_reader {
    pthread_mutex_t applying; /* held while entries are applied; taken before @lock. @at is read under both */
    pthread_mutex_t lock;
    /* Under the lock. */
    struct lane_requests queue;
    bool busy;     /* a port has it: what is below is that runner's alone */
    bool stopped;  /* no port takes it, and whichever has it lets it go, until it is moved */
    enum err over; /* what lane_reader_end() was given; ERR_OK: nothing */
    char why_over[200];
    bool moved;      /* next_lane and next_at are to be taken */
    uint64_t breaks; /* how often it was moved to where entries may be missing, or in another order */
    uint64_t taken;  /* of these, in the turn */
    struct lane next_lane;
    struct log_position next_at;

    struct lane lane;
    struct log_position at;
    uint8_t writer[LOG_WRITER_BYTES];
    uint64_t sequence; /* of the next entry */
    struct lane_reader_hooks hooks;
    void *arg;
    struct own *own; /* borrowed; NULL: nothing is kept */
    struct turn turn;
    bool in_turn;                 /* else a new one is to begin */
    bool is_unreadable;           /* what the lane has could not be read last: nothing is added behind it */
    struct round *round;          /* NULL: none yet */
    struct lane_port *runner;     /* whose store the round went over */
    TAILQ_ENTRY(lane_reader) run; /* of a port: to go on with, or waiting for replies */
    uint64_t not_before;          /* when to go on */
};

struct lane_port {
    struct event_base *base;
    struct async_client *async;
    uint64_t timeout_us;
    struct worker_queue ended; /* requests that are to be told */
    struct event *tick;
    bool ticks; /* it is pending: it ends by itself, where nothing is active or ready any more */
    struct lane_requests active;
    struct lane_readers waiting; /* for replies over this port's store */
    pthread_mutex_t lock;
    struct lane_readers ready; /* under the lock: to go on with */
};

/* --- lane_reader.c --- */
/* Under the lock: have a port go on with it, if somebody waits and it may be. */
void lane_reader_wake(struct lane_reader *r, const struct lane_port *self);
/* Under the lock: @q, which is in no list, ends as the reader did. */
void lane_reader_refuse(struct lane_reader *r, struct lane_request *q);

/* --- lane_turn.c --- */
/* Take what has gathered. False: there is no memory for it, and the turn has ended. */
bool lane_turn_begin(struct lane_reader *r, struct lane_port *p);
/* False: the reader is to stop, and nobody has it any more. Else it is where its owner moved it. */
bool lane_turn_may_go_on(struct lane_reader *r);
bool lane_turn_is_waited_for(struct lane_reader *r);
/* The port of a request that waits goes on with the turn, after a pause. Nobody waits: the turn is over. */
void lane_turn_go_on_later(struct lane_reader *r, const struct lane_port *self);
/* All requests are told; @p begins the next turn, if somebody waits for it. */
void lane_turn_end(struct lane_reader *r, struct lane_port *p, enum err code, const char *text);
/* Free the room for keys. */
void lane_turn_give_back(struct turn *t);

/* --- lane_round.c --- */
/* Begin a turn, or make the next round of it, by @p, whose thread this is. */
void lane_reader_go_on(struct lane_reader *r, struct lane_port *p);
/* @p goes, and has @r among those to go on with; or @is_waiting for replies: another port repeats the round.
 */
void lane_reader_leave(struct lane_reader *r, struct lane_port *p, bool is_waiting);
void lane_round_free(struct round *o);

/* --- lane_port.c --- */
/* Have @p go on with @r at @not_before (clock_mono_us()). @self is the port whose thread this is. */
void lane_port_run(struct lane_port *p, struct lane_reader *r, uint64_t not_before,
                   const struct lane_port *self);
/* Have @p tell that @q has ended, under its reader's lock. */
void lane_port_tell(struct lane_port *p, struct lane_request *q, const struct lane_port *self);
#endif
