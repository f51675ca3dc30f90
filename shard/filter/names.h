/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_NAMES_H
#define SHARD_FILTER_NAMES_H
/* The names of everything Twinbloom keeps in Redis (P is the prefix, F the filter):
 *   P:{F}:view  P:{F}:expansion_flag  P:{F}:job  P:{F}:history  P:{F}:token  P:{F}:load
 *   P:{F}:folder                         who folds a filter that is a log
 *   P:{F}:leftover                       of a filter that is a log: what lies in Redis and no view names
 *   P:{F}:deleted                        the incarnation that was deleted last, for an hour
 *   P:{F}:build  P:{F}:forgotten         the record of a build; generations whose
 *                                        shards are to be deleted
 *   P:filters  P:incarnations (registry.h)  P:slots  P:events  P:coordinators  P:{P:coordinators}:<id>
 *   P:{F.l}:<inc>.log<n>                 a lane (shard/log/lane.h)
 *   P:{F.g.y.i}:<inc>                    shard i of layer y of generation g
 *   P:{F.g.y.i}:<inc>.n<token>.<g>       a shard of a dump that is on its way (loading.h)
 *   P:{F.l}:acks                         written ahead of a WAIT, see acks.h
 * Filter names may hold any byte. F is the name with each of { } % NUL CR LF written as %XX, and a lone % for
 * the empty name, so that Redis sees one hash tag and no two filters share a key. */
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

/* A key name in the caller's storage; not NUL-terminated, and any byte but NUL may be in it. */
struct key_name {
    size_t length;
    char text[KEY_NAME_MAX];
};

/* Names of one filter: prefix and escaped filter, copied; both NUL-terminated. */
struct names {
    size_t prefix_length;
    size_t filter_length;
    uint64_t incarnation; /* of the view in use; part of every shard's name */
    uint16_t crc;         /* slots_crc() of the escaped filter: the hash tag, or how it begins */
    char prefix[PREFIX_MAX + 1];
    char filter[FILTER_NAME_MAX + 1];
};

/* @filter is the name as clients write it. The incarnation is 0 until the caller knows it. ERR_RANGE: @filter
 * is longer than FILTER_NAME_MAX when escaped; @prefix is empty, too long or holds a brace, blank or control
 * character. */
MUST_CHECK enum err names_init(struct names *n, const char *prefix, const char *filter, size_t filter_length,
                               struct error *e);

/* The name as clients write it, from its escaped form, as messages of P:events have it. False: @escaped is no
 * such form. */
MUST_CHECK bool names_unescape(const char *escaped, size_t escaped_length, char out[FILTER_NAME_MAX],
                               size_t *length);

/* @what: "view", "expansion_flag", "job", "history", "token", "load", "tail", "marks",
 * "leftover", "deleted", "folder", "build" or "forgotten". */
/* Append @text so that MATCH takes each of its characters for itself. */
void names_literally(struct buffer *pattern, const char *text, size_t length);

void names_filter_key(const struct names *n, const char *what, struct key_name *out);

struct shard_id {
    uint64_t generation;
    unsigned layer;
    uint32_t shard;
};

/* A shard; and one of a dump that is on its way (loading.h). */
void names_log_shard(const struct names *n, struct shard_id id, struct key_name *out);
void names_new_shard(const struct names *n, struct shard_id id, uint64_t token, struct key_name *out);
/* A key that is on every master: @what, under the name that lies there. @slot: the lowest that it holds; of a
 * list of nodes SLOTS. */
void names_on_master(const char *prefix, unsigned slot, const char *what, struct key_name *out);
#endif
