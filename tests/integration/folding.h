/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_FOLDING_H
#define TESTS_INTEGRATION_FOLDING_H
/* A generation of a filter that is a log, made by hand on one node behind a proxy (or on a cluster), and
 * members, which stand for coordinators, each with shards in memory and a folder. Keys are numbers. Entries
 * are applied without a lane: a member's position is the number of keys that it has applied. */
#include "shard/resident/load.h"
#include "shard/fold/folder.h"
#include "shard/view/log_view.h"
#include "tests/integration/filters.h"
#include "tests/lib/proxy.h"

enum { GENERATION = 2, CAPACITY = 20000, ERA = 0xabcd, ENTRY_KEYS = 100, MEMBERS = 3 };

struct folding_member {
    struct sync_client *link;
    struct budget budget;
    struct resident *resident;
    struct folder folder;
};

extern struct servers folding_servers;
extern struct proxy *folding_proxy; /* NULL: a cluster */
extern unsigned folding_route;
extern struct nodes folding_nodes; /* behind the proxy */
extern struct names folding_names;
extern struct generation folding_g;
extern struct folding_member folding_member[MEMBERS];

/* Setup of a group, and of each test: a generation of one layer, or of two, with empty shards. */
int folding_start(void **state);
int folding_stop(void **state);
int folding_setup(void **state);
int folding_setup_two_layers(void **state);
int folding_teardown(void **state);

/* Begin a member that has nothing in memory. @name is its connections' name; NULL: none. */
void folding_begin_named(struct folding_member *p, const char *name, unsigned timeout_ms);
void folding_begin(struct folding_member *p);
void folding_end(struct folding_member *p);

struct key_name folding_shard_name(unsigned layer, uint32_t shard);
/* Write an empty shard. */
void folding_make_shard(unsigned layer, uint32_t shard);
/* Set a field of the view; a view_field_fn. */
void folding_put_field(void *arg, const char *name, const char *value);
/* Begin to load @count shards from @first on. All of them have been read when this returns. */
void folding_load_some(struct folding_member *p, struct load *l, unsigned layer, uint32_t first,
                       uint32_t count);
/* Load all shards from Redis. */
void folding_load(struct folding_member *p);

struct key_hash folding_key(uint64_t i);
/* Apply entries of the keys [first, last); both numbers are multiples of ENTRY_KEYS. */
void folding_apply(struct folding_member *p, uint64_t first, uint64_t last);
/* folder_fold() up to @position. */
enum err folding_fold_to(struct folding_member *p, uint64_t position, struct error *e);
void folding_folds(struct folding_member *p, uint64_t position);

/* How many of the keys [first, last) a new member misses that loads the shards from Redis. */
uint64_t folding_missing(uint64_t first, uint64_t last);
/* The value of a field of the view, valid until the next command. */
const char *folding_field(const char *name);
/* The stored position. */
uint64_t folding_folded(void);
/* How many of these commands the node has executed; how many that write into shards. */
uint64_t folding_calls(const char *command);
uint64_t folding_writes(void);
#endif
