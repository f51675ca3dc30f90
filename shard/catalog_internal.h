/* SPDX-License-Identifier: MIT */
#ifndef SHARD_CATALOG_INTERNAL_H
#define SHARD_CATALOG_INTERNAL_H
/* What catalog.c (views, entries), catalog_load.c, catalog_counts.c and catalog_trust.c share. */
#include "base/buffer.h"
#include "shard/catalog.h"

enum { BUCKETS = 1024 };

struct catalog {
    struct catalog_options options;
    struct event_base *base;
    struct store *store;
    void *port;
    struct event *tick;  /* deadlines and retries */
    struct event *flush; /* counts, once a turn */
    uint64_t shard_counts_at, relook_at;
    uint64_t counts_in_flight; /* commands */
    bool closing;
    struct operation_list active;
    struct operation_list retries;
    TAILQ_HEAD(, catalog_filter) dirty;
    TAILQ_HEAD(, catalog_filter) unfenced; /* whose views may be fenced, or deleted, by now */
    TAILQ_HEAD(, shared_view) draining;
    struct catalog_filter *bucket[BUCKETS];
    struct buffer command;
};

/* --- catalog.c --- */
/* NULL: there is no such entry. */
struct catalog_filter *catalog_lookup(struct catalog *c, const char *name, size_t length);
/* Put @view (NULL: none) in the place of the one that @f has; takes the reference. */
void catalog_set_view(struct catalog_filter *f, struct shared_view *view);

/* --- catalog_load.c --- */
/* Where a fence is complete by now, the renames need not be sent any more. */
void catalog_look_again(struct catalog *c);

/* --- catalog_trust.c --- */
/* Fill view->trusted from view->v. False: no memory. */
bool shared_view_derive_trust(struct shared_view *view);
bool catalog_same_trust(const struct trusted *a, const struct trusted *b);

/* --- catalog_counts.c --- */
/* The total of the written layer of one generation. For the current one the answer says how full it is. */
void counts_send_total(struct catalog *c, struct shared_view *view, unsigned slot);
void counts_flush_totals(struct catalog *c, struct shared_view *view);
/* Totals go out once a turn; of single shards, what was counted begins to once a second where there are few
 * of them, less often the more there are. COUNTS_ALL: at once, all of it. */
enum counts_which { COUNTS_TOTALS, COUNTS_DUE, COUNTS_ALL };
void counts_flush(struct catalog *c, enum counts_which which);
/* The event of c->flush. */
void counts_on_flush(evutil_socket_t fd, short events, void *arg);
/* Let the counts of the view's single shards be sent; the view is kept until they are. */
void counts_drain(struct catalog *c, struct shared_view *view);
void counts_drain_end(struct catalog *c, struct shared_view *view);
/* Send at most @budget of them. */
void counts_drain_some(struct catalog *c, size_t budget);
#endif
