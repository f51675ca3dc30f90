/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_LANE_READER_H
#define SHARD_LOG_LANE_READER_H
/* A lane as all workers of a process share it. One tail read of the lane is under way, whichever worker asked
 * for it; requests that arrive meanwhile share the next one. It is sent over the same connection at once if
 * it is for at least half as many requests, so that Redis works while this process does; a third one is not.
 * Keys to be added gather in the same way. They leave as entries of up to LOG_KEYS_MAX keys, in one write
 * with the tail read behind them.
 *
 * A worker has a port: its event loop, its connections and a mailbox. A request's callback runs in the thread
 * of its port. The worker that finds no read under way makes it, and also the next ones for as long as one of
 * its own requests waits for them; then a worker whose request waits goes on. The worker that reads also
 * applies the entries: one thread at a time, in the order of the log. */
#include <event2/event.h>
#include <sys/queue.h>
#include "shard/filter/hash.h"
#include "shard/log/worker_queue.h"
#include "shard/log/own.h"
#include "shard/log/tail.h"
#include "shard/redis/async_client.h"

struct lane_reader;
struct lane_port;
struct turn;

/* What to do with the entries of a lane. Hooks are called in the thread of any port, never by two at once. */
struct lane_reader_hooks {
    /* Apply an entry. @fresh is NULL; or, if a request waits for this entry of this process, zeros, one byte
     * for each key: set each byte to say whether the key was new, in values of the owner's choice except
     * LANE_FRESH_UNKNOWN. On error the entry was not applied: waiting requests get the error, and the next
     * tail read begins with the entry again. ERR_FENCED: the entry was not applied, and no request ends; the
     * lane stalls with TAIL_LAYER, until lane_reader_go_back(). */
    enum err (*apply)(void *arg, const struct tail_record *record, uint8_t *fresh, struct error *e);
    /* True if replies count that came over a connection which is ready since @since (clock_mono_us()). A new
     * connection may lead to another server than before: a former metadata node that is back, with its old
     * data. False: the lane stalls with TAIL_NEW. NULL: replies of all connections count. */
    bool (*counts)(void *arg, uint64_t since);
    /* True if keys that were there when their add looked for them, in that term, are there for all readers of
     * the lane: the add needs no entry (lane_add()). Called when a tail read is complete, and its entries are
     * applied. NULL: never. */
    bool (*is_term)(void *arg, uint64_t term);
    /* The lane cannot be read from where the reader was: TAIL_GAP, TAIL_LOST, TAIL_ERA, TAIL_NEW or
     * TAIL_LAYER. Requests wait until lane_reader_move() or lane_reader_end(); the hook may call either. */
    void (*stalled)(void *arg, enum tail_state state);
};

/* ERR_OK: a tail read that began after the request was applied, and all keys of the request were met in the
 * lane. Otherwise @text says why not: ERR_TIMEOUT, ERR_UNREACHABLE (both at the deadline), ERR_CANCELLED (the
 * port was closed), the errors of lane_refusal(), tail_take_range() and the hook, and that of
 * lane_reader_end(). After an error the keys may be in the lane or not. */
struct lane_result {
    enum err code;
    const char *text;
};
typedef void lane_done_fn(void *arg, const struct lane_result *result);

enum {
    LANE_REQUEST_KEYS_MAX = 4096,
    LANE_FRESH_THERE = 254,  /* the key was there, and no entry was appended */
    LANE_FRESH_UNKNOWN = 255 /* the reader was moved after the request was made: whether the key was new is
                              * unknown */
};

/* Lies in the caller's storage until its callback runs, or it is cancelled. The fields belong to the
 * reader. */
struct lane_request {
    TAILQ_ENTRY(lane_request) active; /* in the port's list, the oldest first */
    TAILQ_ENTRY(lane_request) list;   /* in the reader's queue or turn */
    struct worker_queue_item ended;   /* in the port's queue of callbacks */
    struct lane_port *port;
    struct lane_reader *reader;
    struct turn *turn; /* that has taken it */
    const struct key_hash *keys;
    uint8_t *fresh;
    unsigned count, there;       /* number of keys; of those that were there */
    unsigned first, first_there; /* index in the turn of the first one to append; that was there */
    uint64_t term;               /* in which they were there; 0: all are appended */
    unsigned where;              /* the lane's address */
    uint64_t breaks;             /* the reader's value when the request was made */
    uint8_t state;
    uint64_t deadline;
    lane_done_fn *done;
    void *arg;
    enum err code;
    char text[200];
};

/* --- the lane --- */

/* All but @arg is copied. @writer is random, and identifies this process. NULL: no memory. */
struct lane_reader *lane_reader_new(const struct lane *lane, const struct log_position *at,
                                    const uint8_t writer[LOG_WRITER_BYTES],
                                    const struct lane_reader_hooks *hooks, void *arg);
/* Keep acknowledged entries in @own, which is borrowed. Call it before the first request. @own must be in the
 * stream and era that the reader reads; if it is not, the reader stalls with TAIL_ERA when it meets an entry
 * of its own. If @own has no room, adds are refused with ERR_NOMEM. */
void lane_reader_keep(struct lane_reader *r, struct own *own);
/* False: a tail read is under way, or a hook has not returned; call again. No request may be waiting. */
MUST_CHECK bool lane_reader_free(struct lane_reader *r);
/* After the return no hook is running that is called for entries or for a stall, and none will be until
 * lane_reader_move(). Requests wait. Do not call it from a hook. */
void lane_reader_stop(struct lane_reader *r);
/* Read on from @at, with the key, address and era of @lane: a new era was accepted, or shards are loaded
 * again. The reader looks for the entries of waiting requests from there on, and sends those that are missing
 * again. Which of their keys were new is then unknown. Any thread. */
void lane_reader_move(struct lane_reader *r, const struct lane *lane, const struct log_position *at);
/* Read on from @at, which is the reader's position or one before it in the same lane. Entries behind @at are
 * applied again, in order. */
void lane_reader_go_back(struct lane_reader *r, const struct lane *lane, const struct log_position *at);
/* End all waiting requests with an error, and all later ones until lane_reader_move(). Any thread. */
void lane_reader_end(struct lane_reader *r, enum err code, const char *text);
/* The last entry that was applied. Waits for entries that are being applied. Any thread. */
void lane_reader_position(struct lane_reader *r, struct log_position *out);
/* The lane that is read, with the era that the reader was last moved to. False: the reader is stopped. Any
 * thread. */
MUST_CHECK bool lane_reader_lane(struct lane_reader *r, struct lane *out);
/* As lane_reader_position(), and no entry is applied until lane_reader_let_go(). Do not call it from a
 * hook. */
void lane_reader_hold(struct lane_reader *r, struct log_position *out);
void lane_reader_let_go(struct lane_reader *r);

/* --- workers --- */

/* @base and @async are borrowed. All other calls with the port are made in the thread that runs @base. A
 * request ends after @timeout_ms at the latest; UINT_MAX: it has no deadline. NULL: no memory. */
struct lane_port *lane_port_new(struct event_base *base, struct async_client *async, unsigned timeout_ms);
/* Call it before the client and the readers are freed, and not from a lane_done_fn. Pending requests get
 * ERR_CANCELLED. @p may be NULL. */
void lane_port_free(struct lane_port *p);
/* Call it when no request of the port is under way and its loop will not run for some time: lanes that the
 * port still reads, for a request that has ended at its deadline, are read by ports of other requests.
 * Otherwise those would wait for this loop. Its client rests, too (async_client_rest()). */
void lane_port_rest(struct lane_port *p);

/* Call @done when a tail read that begins from now on was applied. Never from inside this call. */
void lane_ask(struct lane_port *p, struct lane_reader *r, struct lane_request *q, lane_done_fn *done,
              void *arg);
/* As lane_ask(), and add 1 to LANE_REQUEST_KEYS_MAX keys. @keys and @fresh (@count bytes) are borrowed until
 * @done. After ERR_OK @fresh says which keys were new.
 *
 * A key whose @fresh is LANE_FRESH_THERE was in the owner's memory in that @term; 0: none was. If it is the
 * same term once a tail read that begins from now on was applied, nothing is appended for the key: it is kept
 * as if its entry were the last one that was read. Model: writer of there.pml. */
void lane_add(struct lane_port *p, struct lane_reader *r, struct lane_request *q, const struct key_hash *keys,
              unsigned count, uint8_t *fresh, uint64_t term, lane_done_fn *done, void *arg);
/* The callback does not run any more. */
void lane_cancel(struct lane_request *q);
#endif
