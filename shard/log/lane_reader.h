/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_LANE_READER_H
#define SHARD_LOG_LANE_READER_H
/* A lane as all workers of a process share it. One tail read of the lane is under way at a time, whoever
 * asked; requests that come meanwhile share the next one. Keys that are to be added gather in the same way,
 * and leave as entries of up to LOG_KEYS_MAX keys in one write with the tail read behind them.
 *
 * A worker has a port: its event loop, its connections and a mailbox. A request is told in the thread of its
 * port. The worker that finds no read under way makes it, and the ones that follow for as long as a request
 * of its own waits for them; then a worker whose request waits goes on. Entries are applied there, by one
 * thread at a time, in the order of the log. */
#include <event2/event.h>
#include <sys/queue.h>
#include "shard/filter/hash.h"
#include "shard/log/worker_queue.h"
#include "shard/log/own.h"
#include "shard/log/tail.h"
#include "shard/redis/async_client.h"

struct lane_reader;
struct lane_port;

/* What to do with the entries of a lane. They are called in the thread of any port, never by two at once. */
struct lane_reader_hooks {
    /* Apply an entry. @fresh: NULL, or zeroes, one byte for each key of an entry of ours that somebody waits
     * for: say whether the key was new, in values of the caller's but LANE_FRESH_UNKNOWN. An error: it was
     * not applied; those who wait are told, and the next tail read begins with it again. ERR_FENCED: nor was
     * it, and nobody is told; the lane is stalled with TAIL_LAYER, until lane_reader_go_back(). */
    enum err (*apply)(void *arg, const struct tail_record *record, uint8_t *fresh, struct error *e);
    /* Whether what is answered over a connection counts that is there since @since (clock_mono_us()): the
     * address may lead to another server than before, which is home once more with what it had then. False:
     * the lane is stalled with TAIL_NEW. NULL: all of them count. */
    bool (*counts)(void *arg, uint64_t since);
    /* The lane cannot be read on from where it was: TAIL_GAP, TAIL_LOST, TAIL_ERA, TAIL_NEW or TAIL_LAYER.
     * Requests wait until lane_reader_move() or lane_reader_end(), either of which may be called from here.
     */
    void (*stalled)(void *arg, enum tail_state state);
};

/* ERR_OK: a tail read that began after the request was made is applied, and all keys of the request were met
 * in the lane. Otherwise @text says why not: ERR_TIMEOUT, ERR_UNREACHABLE (both at the deadline),
 * ERR_CANCELLED (the port was closed), those of lane_refusal(), tail_take_range() and the hook, and what
 * lane_reader_end() was given. In all of these keys may be in the lane or not. */
struct lane_result {
    enum err code;
    const char *text;
};
typedef void lane_done_fn(void *arg, const struct lane_result *result);

enum {
    LANE_REQUEST_KEYS_MAX = 4096,
    LANE_FRESH_UNKNOWN = 255 /* the reader was moved after the request was made: what is new is not known */
};

/* In the storage of whoever asks, until it is told or cancelled; the fields are the reader's. */
struct lane_request {
    TAILQ_ENTRY(lane_request) active; /* of the port, the oldest first */
    TAILQ_ENTRY(lane_request) list;   /* of the reader's queue or turn */
    struct worker_queue_item ended;   /* of what the port is to tell */
    struct lane_port *port;
    struct lane_reader *reader;
    const struct key_hash *keys;
    uint8_t *fresh;
    unsigned count, first; /* keys, and the number of the first in the turn */
    unsigned where;        /* the lane's address */
    uint64_t breaks;       /* of the reader, when the request was made */
    uint8_t state;
    uint64_t deadline;
    lane_done_fn *done;
    void *arg;
    enum err code;
    char text[200];
};

/* --- the lane --- */

/* Everything is copied but @arg. @writer is random, of this process. NULL: no memory. */
struct lane_reader *lane_reader_new(const struct lane *lane, const struct log_position *at,
                                    const uint8_t writer[LOG_WRITER_BYTES],
                                    const struct lane_reader_hooks *hooks, void *arg);
/* Keep in @own (borrowed) what is acknowledged; before the first request. @own is in the stream and era that
 * the reader reads, or the reader stalls with TAIL_ERA when it meets an entry of its own. Where @own has no
 * room, adds are refused with ERR_NOMEM. */
void lane_reader_keep(struct lane_reader *r, struct own *own);
/* False: a tail read is under way; call again. No request may be waiting. */
MUST_CHECK bool lane_reader_free(struct lane_reader *r);
/* When this returns nothing is being applied, and nothing will be until lane_reader_move(). Requests wait.
 * Not from a hook. */
void lane_reader_stop(struct lane_reader *r);
/* Read on from @at, under @lane's name, address and era: a new era was accepted, or shards are loaded again.
 * Entries of requests that wait are looked for from there on, and sent again where they are missing; which of
 * their keys were new is not known. Any thread. */
void lane_reader_move(struct lane_reader *r, const struct lane *lane, const struct log_position *at);
/* Read on from @at, where the reader is or before, in the same lane; entries behind it are applied again, in
 * their order. */
void lane_reader_go_back(struct lane_reader *r, const struct lane *lane, const struct log_position *at);
/* Tell those who wait, and all who come until lane_reader_move(), that it is over. Any thread. */
void lane_reader_end(struct lane_reader *r, enum err code, const char *text);
/* The last entry that was applied; waits for those that are being applied. Any thread. */
void lane_reader_position(struct lane_reader *r, struct log_position *out);
/* The lane that it reads, with the era that it was moved to last. False: it is stopped. Any thread. */
MUST_CHECK bool lane_reader_lane(struct lane_reader *r, struct lane *out);
/* As lane_reader_position(), and nothing more is applied until lane_reader_let_go(). Not from a hook. */
void lane_reader_hold(struct lane_reader *r, struct log_position *out);
void lane_reader_let_go(struct lane_reader *r);

/* --- workers --- */

/* @base and @store are borrowed; all calls with the port, but this one, are made in the thread that runs
 * @base. A request is told after @timeout_ms at the latest; UINT_MAX: it has no deadline. NULL: no memory. */
struct lane_port *lane_port_new(struct event_base *base, struct async_client *async, unsigned timeout_ms);
/* Before the store is freed, and before the readers are; not from a lane_done_fn. Requests are told
 * ERR_CANCELLED. NULL is fine. */
void lane_port_free(struct lane_port *p);

/* Be told when a tail read that begins from now on is applied. Never from inside this call. */
void lane_ask(struct lane_port *p, struct lane_reader *r, struct lane_request *q, lane_done_fn *done,
              void *arg);
/* Add keys, 1 to LANE_REQUEST_KEYS_MAX, and be told the same. @keys and @fresh (of @count bytes; they say
 * which keys were new, once told ERR_OK) are borrowed until then. */
void lane_add(struct lane_port *p, struct lane_reader *r, struct lane_request *q, const struct key_hash *keys,
              unsigned count, uint8_t *fresh, lane_done_fn *done, void *arg);
/* It is not told any more. */
void lane_cancel(struct lane_request *q);
#endif
