/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_PINNING_H
#define TESTS_INTEGRATION_PINNING_H
/* Shared parts of the tests of block reads: a generation of two layers in Redis, none of it in memory, and
 * requests that read the blocks of numbered keys. The first PINNING_KEYS keys are in the first layer. */
#include "tests/integration/lanes.h"

#include "shard/resident/block_read.h"

enum {
    PINNING_TAG = 0xbee5,
    PINNING_MIX = 77,
    PINNING_KEYS = 3000,
    PINNING_GENERATION = 3,
    PINNING_MADE = 6, /* the token under which the shards were made */
    PINNING_STORE_MS = 700,
    PINNING_GUARD_MS = 20000,
    PINNING_MANY = 100 /* keys of a request */
};

extern const struct geometry pinning_geometry[2]; /* of the layers */

struct pinning {
    struct sync_client *link; /* writes the shards */
    struct names names;
    struct placement placement;
    struct trusted eras;
    struct budget budget;
    struct resident *r;
    struct event_base *base;
    struct async_client *store;
    struct block_source source;
    uint8_t *shards[2]; /* without headers */
};

/* Write the generation to @direct, and make the client that reads it by @nodes; both are borrowed. The caller
 * fills in the eras. */
void pinning_open(struct pinning *p, const struct nodes *direct, const struct nodes *nodes);
/* Fails the test if a block is still pinned. */
void pinning_close(struct pinning *p);

struct key_name pinning_name(const struct pinning *p, unsigned layer, uint32_t shard);
struct header pinning_header(const struct pinning *p, unsigned layer, uint32_t shard);
/* Write a shard behind the header @h, without its last @cut bytes. */
void pinning_write(struct pinning *p, unsigned layer, uint32_t shard, const struct header *h, size_t cut);
/* Send a command for a shard; @what has one or two "%b". */
void pinning_command(struct pinning *p, unsigned layer, uint32_t shard, const char *what, const void *bytes,
                     size_t length);

struct key_hash pinning_hash(uint64_t key);
struct key_place pinning_place(unsigned layer, uint64_t key);

/* A request for the blocks of @count keys, at most PINNING_MANY, from @first on. */
struct pinning_request {
    struct pinning *p;
    struct block_read *read;
    struct key_hash hashes[PINNING_MANY];
    unsigned count;
    uint64_t began;
    unsigned told;
    uint64_t took_us;
    bool end_when_told;
    struct block_result result;
    char text[512];
};
void pinning_begin(struct pinning_request *q, struct pinning *p, uint64_t first, unsigned count);
void pinning_turn(struct pinning *p);
/* Check that there is no result within @ms. */
void pinning_waits(struct pinning_request *q, unsigned ms);
/* Wait for the result, which must be @code and @text. */
void pinning_wait(struct pinning_request *q); /* until it ends, somehow */
void pinning_ends(struct pinning_request *q, enum err code, const char *text);
/* Get the answers of a request that has its result and is not ended: RESIDENT_... for each key. */
void pinning_look(const struct pinning_request *q, uint8_t *answers);
void pinning_end(struct pinning_request *q);
#endif
