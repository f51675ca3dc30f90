/* SPDX-License-Identifier: MIT */
#ifndef SHARD_OPERATION_INTERNAL_H
#define SHARD_OPERATION_INTERNAL_H
/* What catalog.c, operation.c, operation_send.c, and operation_end.c share. */
#include <limits.h>
#include "shard/acks.h"
#include "shard/block_command.h"
#include "shard/operation.h"

enum operation_queue { QUEUE_NONE, QUEUE_WAITING, QUEUE_WAITING_NEXT, QUEUE_RETRY };

/* KEY_UNSENT: some command of the key was not executed for all we know. It outweighs KEY_UNSEEN: a loss may
 * be concluded only where every other shard of the key has taken it. KEY_HELD: not sent in this attempt,
 * because the layer has no room for more. */
enum key_state { KEY_PENDING, KEY_DONE, KEY_UNSENT, KEY_UNSEEN, KEY_HELD };

#define NODE_NONE UINT_MAX

struct operation_key {
    const char *bytes;
    size_t length;
    uint8_t state;       /* enum key_state */
    uint8_t result;      /* enum key_result */
    uint8_t unseen_slot; /* of the generation whose block was not seen */
    uint8_t waits;       /* commands of this attempt that are not answered */
    bool refused;        /* in this attempt a node that is dead did not take a command */
    bool present;        /* in a layer of the current generation, in this attempt */
    bool fresh[2];       /* by slot: an add of this operation set a bit that was not set */
    bool suspect; /* a master that the filter does not trust, or a shard that is unsure, said that it is
                   * absent from some layer of the current generation; of a check: in this attempt */
};

struct operation_command {
    struct attempt *attempt;
    struct key_hash hash;
    uint32_t key;
    uint8_t slot;
    uint8_t layer;
    uint8_t kind; /* enum block_command_kind */
};

/* The keys of an operation, sent once under one view. It lives until its last command is answered, though the
 * operation may have ended before, or have been started again. */
struct attempt {
    struct operation *op; /* NULL: it has ended */
    struct shared_view *view;
    uint64_t in_flight;    /* keys of an add, counted in view->in_flight */
    unsigned outstanding;  /* commands whose callbacks are to come */
    unsigned acks_awaited; /* commands that were answered, or not yet, and are not acknowledged */
    struct operation_command commands[];
};

struct operation {
    TAILQ_ENTRY(operation) active; /* in the order of starting: the first has the earliest deadline */
    TAILQ_ENTRY(operation) queue;
    enum operation_queue in;
    struct catalog *catalog;
    struct catalog_filter *filter;
    struct shared_view *view; /* of the last attempt */
    operation_done_fn *done;
    void *arg;
    uint64_t deadline;
    unsigned timeout_ms; /* 0: the catalog's */
    enum operation_kind kind;
    enum err status;
    char *error;
    bool running; /* started and not finished */
    bool released;
    bool acked;       /* some of its adds went by a line of their own */
    enum err unacked; /* why the last one was not; ERR_OK: none */
    char *unacked_why;
    bool retried;
    uint64_t redirected; /* store_redirected() at the start */
    bool look_if_full;
    bool full;     /* the filter is full and may not grow: its adds only look whether the key is there */
    unsigned away; /* the address that took none of this attempt; NODE_NONE: all took theirs */
    struct attempt *attempt; /* under way; NULL: none */
    size_t key_count, key_filled;
    struct operation_key *keys;
    char *bytes;
    size_t bytes_filled;
};

/* The catalog's lists. */
struct operation_list *catalog_active(struct catalog *c);
struct operation_list *catalog_retries(struct catalog *c);

/* --- operation_send.c --- */
/* Send the keys that have no answer yet, under the filter's present view; operation_settle() when all replies
 * are in. */
void operation_attempt(struct operation *op);

/* --- operation.c --- */
void operation_settle(struct operation *op);
void operation_retry_later(struct operation *op);
/* Forget the answers that keys have. */
void operation_restart_keys(struct operation *op);
void operation_key_finish(struct operation *op, struct operation_key *key);
unsigned operation_timeout(const struct operation *op);
extern const char operation_view_missing[];
/* Run by the catalog's timer. */
void operation_retry(struct operation *op);
void operation_finish(struct operation *op, enum err status, const char *text);

/* --- operation_end.c --- */
bool operation_is_dead(const struct operation *op, unsigned where);
/* A node does not take what must be asked before any key is sent. */
void operation_away(struct operation *op, unsigned where);
/* Every key that has no answer waits for a node that has been away for as long as a request may take: it will
 * not be back within this one. */
bool operation_is_hopeless(const struct operation *op);
/* The deadline has passed, or nothing is to be hoped for; run by the catalog's timer. */
void operation_expire(struct operation *op);
#endif
