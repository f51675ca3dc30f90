/* SPDX-License-Identifier: MIT */
#ifndef SHARD_OPERATION_INTERNAL_H
#define SHARD_OPERATION_INTERNAL_H
/* What catalog.c, operation.c and operation_send.c share. */
#include "shard/block_command.h"
#include "shard/operation.h"

enum operation_queue { QUEUE_NONE, QUEUE_WAITING, QUEUE_WAITING_NEXT, QUEUE_RETRY };

/* KEY_UNSENT: some command of the key was not executed for all we know. It outweighs KEY_UNSEEN: a loss may
 * be concluded only where every other shard of the key has taken it. KEY_HELD: not sent in this attempt,
 * because the layer has no room for more. */
enum key_state { KEY_PENDING, KEY_DONE, KEY_UNSENT, KEY_UNSEEN, KEY_HELD };

struct operation_key {
    const char *bytes;
    size_t length;
    uint8_t state;       /* enum key_state */
    uint8_t result;      /* enum key_result */
    uint8_t unseen_slot; /* of the generation whose block was not seen */
    uint8_t waits;       /* commands of this attempt that are not answered */
    bool present;        /* in a layer of the current generation, in this attempt */
    bool fresh[2];       /* by slot: an add of this operation set a bit that was not set */
};

struct operation_command {
    struct operation *op;
    struct key_hash hash;
    uint32_t key;
    uint8_t slot;
    uint8_t layer;
    uint8_t kind; /* enum block_command_kind */
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
    bool retried;
    bool full;          /* the filter is full and may not grow: its adds only look whether the key is there */
    uint64_t in_flight; /* of this operation in view->in_flight */
    unsigned outstanding; /* commands whose callbacks are to come */
    size_t key_count, key_filled;
    struct operation_key *keys;
    char *bytes;
    size_t bytes_filled;
    size_t command_capacity;
    struct operation_command *commands;
    struct operation_command first_commands[2];
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
void operation_free_if_over(struct operation *op);
/* Run by the catalog's timer. */
void operation_expire(struct operation *op);
void operation_retry(struct operation *op);
void operation_finish(struct operation *op, enum err status, const char *text);
#endif
