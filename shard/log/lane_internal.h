/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_LANE_INTERNAL_H
#define SHARD_LOG_LANE_INTERNAL_H
/* What lane_reader.c (a reader's interface), lane_turn.c (gathered requests), lane_round.c (one write and its
 * replies) and lane_port.c (the requests of a worker) share.
 *
 * Locks: a reader's, then a port's. A request's state changes under its reader's lock. */
#include <pthread.h>
#include <stdatomic.h>
#include "shard/log/lane_reader.h"

TAILQ_HEAD(lane_requests, lane_request);
TAILQ_HEAD(lane_readers, lane_reader);

enum request_state { REQUEST_QUEUED, REQUEST_TAKEN, REQUEST_ENDED };

enum entry_state {
    ENTRY_UNSENT,
    ENTRY_SENT,  /* it may be in the lane */
    ENTRY_THERE, /* its keys were there: it is not sent */
    ENTRY_MET,
    ENTRY_REFUSED
};

/* An entry has LOG_KEYS_MAX keys, except for the last one of those to append, and of those that are there. */
enum { TURN_ENTRIES_MAX = LANE_REQUEST_KEYS_MAX / LOG_KEYS_MAX + 1 };
_Static_assert(TURN_ENTRIES_MAX + 3 <= LANE_COMMANDS_MAX, "and the tail read");

/* Requests that are handled together, until a tail read that began after all of them is complete. */
struct turn {
    struct lane_requests requests; /* guarded by the reader's lock */
    bool has_begun;                /* false: it has no requests yet */
    unsigned taken;                /* number of requests that it began with */
    unsigned keys, entries;        /* number of keys to append at first, which come first; of all entries */
    unsigned there, there_from;    /* number of keys that were there; the first entry with such */
    uint64_t term;                 /* in which they were there */
    uint64_t sequence;             /* of the first entry */
    uint8_t state[TURN_ENTRIES_MAX];
    unsigned room; /* the number of keys that @hashes and @fresh have room for */
    struct key_hash *hashes;
    uint8_t *fresh;
    enum err refused; /* why an entry was refused; ERR_OK: none was */
    struct error why_refused;
    unsigned redirections; /* redirections without a success between them */
    bool with_length;      /* the next round asks for the length, to tell a lost lane from a gap */
    struct round *round;   /* NULL: none yet */
    bool is_sent;          /* the round is under way */
};

/* One write and its replies. It lives until the last reply, even if the reader has gone on without it. */
struct round {
    struct lane_reader *reader; /* NULL: the reader has gone on without it */
    struct turn *turn;
    struct lane_commands commands;
    struct tail tail;
    unsigned next, awaited;          /* index of the next reply; number of replies to come */
    unsigned added;                  /* number of XADD commands; while replies come, of replies to them */
    uint8_t entry[TURN_ENTRIES_MAX]; /* by XADD command, the index of its entry in the turn */
    bool missing;                    /* XADD found no lane */
    uint64_t since;                  /* when the connection of the replies became ready, clock_mono_us() */
    enum err code;                   /* the first error */
    struct error why;
    struct slot_redirect redirect;
};

struct lane_reader {
    /* Held while entries are applied, and while the owner is told of a stall; taken before @lock. @at changes
     * under both. */
    pthread_mutex_t applying;
    pthread_mutex_t lock;
    /* Guarded by @lock: */
    struct lane_requests queue;
    bool busy;     /* a port has the reader: what follows below the guarded fields belongs to that port */
    bool stopped;  /* no port takes the reader, and a port that has it lets it go, until it is moved */
    enum err over; /* the code of lane_reader_end(); ERR_OK: it was not called */
    char why_over[200];
    bool moved;      /* next_lane and next_at are to be taken over */
    uint64_t breaks; /* the number of moves to where entries may be missing, or in another order */
    uint64_t taken;  /* how many of these moves the turns have taken over */
    struct lane next_lane;
    struct log_position next_at;

    struct lane lane;
    struct log_position at;
    uint8_t writer[LOG_WRITER_BYTES];
    uint64_t sequence; /* of the next entry */
    struct lane_reader_hooks hooks;
    void *arg;
    struct own *own; /* borrowed; NULL: acknowledged entries are not kept */
    struct turn turns[2];
    struct turn *turn;  /* of @turns: the one that ends first */
    struct turn *ahead; /* the other one: it may begin while the round of @turn is under way */
    bool is_unreadable; /* the last read could not be understood: nothing is appended until one can be */
    _Atomic(struct lane_port *) runner; /* the port whose client sent the round of @turn; NULL: none is under
                                         * way */
    TAILQ_ENTRY(lane_reader) run;       /* in a port's list of readers: ready, or waiting for replies */
    TAILQ_ENTRY(lane_reader) next;      /* in a port's list @soon */
    bool is_soon;
    uint64_t not_before; /* when to go on, clock_mono_us() */
};

struct lane_port {
    struct event_base *base;
    struct async_client *async;
    uint64_t timeout_us;
    struct worker_queue ended; /* requests whose callbacks the port must run */
    struct event *tick;
    bool ticks; /* @tick is pending: it ends by itself when nothing is active or ready */
    struct lane_requests active;
    struct lane_readers waiting; /* readers that wait for replies to this port's client */
    struct lane_readers soon;    /* readers to go on with in the loop's next round */
    struct event *next_round;
    pthread_mutex_t lock;
    struct lane_readers ready; /* guarded by @lock: readers to go on with */
};

/* --- lane_reader.c --- */
/* Under the lock: let a port go on with the reader, if a request waits and the reader is not stopped. */
void lane_reader_wake(struct lane_reader *r, struct lane_port *self);
/* Under the lock: end @q, which is in no list, with the error of lane_reader_end(). */
void lane_reader_refuse(struct lane_reader *r, struct lane_request *q);

/* --- lane_turn.c --- */
/* Take the requests that have gathered. False: no memory; the turn has ended. */
bool lane_turn_begin(struct lane_reader *r, struct lane_port *p);
/* Take them into the turn ahead, if they are worth a round of their own. */
bool lane_turn_begin_ahead(struct lane_reader *r, struct lane_port *p);
/* False: the reader is stopped, and no port has it any more. True: a move by its owner was taken over. */
bool lane_turn_may_go_on(struct lane_reader *r);
bool lane_turn_is_waited_for(struct lane_reader *r);
/* Let the port of a waiting request go on with the turn, after a pause: another one than @self, if there is
 * one, as the connection of @self may be the only one that is down. If no request waits, the turn ends. */
void lane_turn_go_on_later(struct lane_reader *r, const struct lane_port *self);
/* End all requests of the turn. The turn ahead takes its place, if it has begun; else, if more requests wait,
 * @p or another port begins the next one. */
void lane_turn_end(struct lane_reader *r, struct lane_port *p, enum err code, const char *text);
/* The keys of an entry of the turn: the index of the first one, and their number. */
struct turn_span {
    unsigned first, count;
};
struct turn_span lane_turn_span(const struct turn *t, unsigned entry);
/* Free the room for keys. */
void lane_turn_give_back(struct turn *t);

/* --- lane_round.c --- */
/* Begin a turn, or make its next round. @p is the port of the calling thread. */
void lane_reader_go_on(struct lane_reader *r, struct lane_port *p);
/* While a round of @p is under way: begin the turn ahead, if requests have gathered. */
void lane_reader_go_ahead(struct lane_reader *r, struct lane_port *p);
/* The round of the turn is under way, sent by @p. */
void lane_round_await(struct lane_reader *r, struct lane_port *p);
/* @p has @r ready, or waits for replies, and ends, or its connection breaks: another port makes the round
 * again, if there is one. */
void lane_reader_leave(struct lane_reader *r, struct lane_port *p);
void lane_round_free(struct round *o);

/* --- lane_port.c --- */
/* Let @p go on with @r at @not_before (clock_mono_us()). @self is the port of the calling thread. */
void lane_port_run(struct lane_port *p, struct lane_reader *r, uint64_t not_before,
                   const struct lane_port *self);
/* Let @p, which is the port of the calling thread, go on with @r once its loop has looked for bytes once
 * more. */
void lane_port_run_soon(struct lane_port *p, struct lane_reader *r);
/* Take that back, if it was not done yet. */
void lane_port_forget_soon(struct lane_port *p, struct lane_reader *r);
/* Let @p run the callback of @q, which has ended. Called under the lock of @q's reader. */
void lane_port_tell(struct lane_port *p, struct lane_request *q, const struct lane_port *self);
#endif
