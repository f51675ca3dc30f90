/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_NAMES_H
#define SHARD_FILTER_NAMES_H
/* The names of all keys of Redis that Twinbloom uses (P is the prefix, F the filter):
 *   P:{F}:view  P:{F}:expansion_flag  P:{F}:job  P:{F}:history  P:{F}:token  P:{F}:load
 *   P:{F}:folder                         the lease of whoever folds
 *   P:{F}:leftover                       keys in Redis that no view names
 *   P:{F}:deleted                        the incarnation that was deleted last, for an hour
 *   P:{F}:build  P:{F}:forgotten         a build's record; generations whose shards are to be deleted
 *   P:filters  P:incarnations (registry.h)  P:slots  P:timelines  P:events
 *   P:coordinators  P:{P:coordinators}:<id>
 *   P:{F.l}:<inc>.log<n>                 a lane (shard/log/lane.h)
 *   P:{F.g.y.i}:<inc>                    shard i of layer y of generation g
 *   P:{F.g.y.i}:<inc>.n<token>.<g>       a shard of a dump that is being loaded (loading.h)
 *   P:{F.l}:acks                         a write before each WAIT (acks.h)
 * Filter names may hold any byte. F is the name with each of { } % NUL CR LF written as %XX; the empty name
 * is a lone %. So Redis sees one hash tag, and no two filters share a key. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

enum {
    FILTER_NAME_MAX = 512 /* escaped */,
    PREFIX_MAX = 64,
    KEY_NAME_MAX = PREFIX_MAX + FILTER_NAME_MAX + 160
};

/* The name of a key, in the caller's storage. It holds any byte but NUL, and is NUL-terminated. */
struct key_name {
    size_t length;
    char text[KEY_NAME_MAX];
};

/* Names of one filter: copies of the prefix and of the escaped name, both NUL-terminated. */
struct names {
    size_t prefix_length;
    size_t filter_length;
    uint64_t incarnation; /* of the current view; a part of every shard's name */
    uint16_t crc;         /* slots_crc() of the escaped name, which is the hash tag or its beginning */
    char prefix[PREFIX_MAX + 1];
    char filter[FILTER_NAME_MAX + 1];
};

/* @filter is the name as clients write it. The incarnation is 0 until the caller sets it. ERR_RANGE: @filter
 * is longer than FILTER_NAME_MAX when escaped; @prefix is empty, is too long, or holds a brace, blank or
 * control character. */
MUST_CHECK enum err names_init(struct names *n, const char *prefix, const char *filter, size_t filter_length,
                               struct error *e);

/* The name as clients write it, from its escaped form (messages on P:events have that). False: @escaped is
 * not an escaped name. */
MUST_CHECK bool names_unescape(const char *escaped, size_t escaped_length, char out[FILTER_NAME_MAX],
                               size_t *length);

/* Append @text to a pattern for MATCH, with its special characters escaped. */
void names_literally(struct buffer *pattern, const char *text, size_t length);

/* The key P:{F}:@what; @what is for example "view". */
void names_filter_key(const struct names *n, const char *what, struct key_name *out);

/* hash_tag() of the blocks of @generation. */
uint16_t names_tag(const struct names *n, uint64_t generation);

struct shard_id {
    uint64_t generation;
    unsigned layer;
    uint32_t shard;
};

/* The name of a shard; the name of a shard of a dump that is being loaded (loading.h). */
void names_log_shard(const struct names *n, struct shard_id id, struct key_name *out);
void names_new_shard(const struct names *n, struct shard_id id, uint64_t token, struct key_name *out);
/* The name of the key @what that every master has. @slot: the lowest slot that the master holds, or SLOTS for
 * a list of nodes. */
void names_on_master(const char *prefix, unsigned slot, const char *what, struct key_name *out);
#endif
