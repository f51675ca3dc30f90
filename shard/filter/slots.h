/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_SLOTS_H
#define SHARD_FILTER_SLOTS_H
/* Slots of a Redis Cluster: which slot a key has, which master holds it, and what a node says of that
 * (CLUSTER SLOTS, CLUSTER SHARDS, the errors MOVED and ASK). Pure; no I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "shard/filter/generation.h"

enum {
    SLOTS = 16384,
    SLOT_NODES_MAX = 1024, /* the most nodes of a map */
    SLOT_UNOWNED = UINT16_MAX
};

/* --- keys --- */

/* CRC16 (XMODEM), continued: @crc is that of the bytes before, or 0 at the beginning. */
uint16_t slots_crc(uint16_t crc, const void *bytes, size_t n);
/* The slot of a key. If the key has a hash tag that is not empty (from the first '{' to the next '}'), the
 * slot is that of the tag; else that of the whole key. */
unsigned slots_of_key(const char *key, size_t length);
static inline unsigned slots_of_crc(uint16_t crc)
{
    return crc % SLOTS;
}

/* --- maps --- */

struct slot_node {
    char name[NODE_NAME_MAX]; /* host:port, or [v6]:port */
    char host[NODE_NAME_MAX];
    uint16_t port;
    bool replica;
    unsigned slots; /* the number of slots that it holds */
};

/* A zero-initialised map is empty; call slot_map_init() first on a map that is to be patched. */
struct slot_map {
    unsigned count;
    struct slot_node *node; /* masters, and replicas without slots; owned by the map */
    uint16_t owner[SLOTS];  /* index of the master, or SLOT_UNOWNED */
};

void slot_map_init(struct slot_map *m);
void slot_map_fini(struct slot_map *m);
/* On error (ERR_NOMEM) *@out is empty. */
MUST_CHECK enum err slot_map_copy(struct slot_map *out, const struct slot_map *from);

/* Make a map from a reply to CLUSTER SLOTS or CLUSTER SHARDS. @asked_host: the host of the node that replied,
 * for replies that leave their own host out (null or empty). @tls: take the TLS ports of CLUSTER SHARDS
 * (CLUSTER SLOTS chooses by the connection). Slots that nobody holds are SLOT_UNOWNED. CLUSTER SHARDS also
 * names masters without slots, except failed ones. Masters with an unknown host ("?") are left out. On error
 * *@out is empty. ERR_PARSE: the reply has another form, or values out of bounds. ERR_REFUSED,
 * ERR_UNREACHABLE: the reply is an error that stays, or one that passes. ERR_NOMEM. */
MUST_CHECK enum err slot_map_parse(struct slot_map *out, const redisReply *reply, const char *asked_host,
                                   bool tls, struct error *e);

/* The index of the node with that host and port; m->count if there is none. */
unsigned slot_map_find(const struct slot_map *m, const char *host, uint16_t port);
/* True if the master of @slot has another name in @b than in @a. */
bool slot_map_has_moved(const struct slot_map *a, const struct slot_map *b, unsigned slot);
/* The number of masters; the number of slots that a master holds. */
unsigned slot_map_masters(const struct slot_map *m);
unsigned slot_map_covered(const struct slot_map *m);
/* Note what MOVED says: the master at host and port holds @slot. ERR_NOMEM, ERR_RANGE (too many nodes):
 * nothing has changed, and the next command will be redirected again. */
enum err slot_map_patch(struct slot_map *m, unsigned slot, const char *host, uint16_t port);

/* --- errors of a node --- */

struct slot_redirect {
    bool ask; /* true: ASK, for this command only, with ASKING before it; false: MOVED, from now on */
    unsigned slot;
    char host[NODE_NAME_MAX];
    uint16_t port;
};

/* The command before each one that goes where ASK says. */
extern const char slots_asking[];
/* Parse "MOVED 3999 127.0.0.1:6381" or "ASK 3999 [host]:6381". False: @text is neither, or names no node. */
bool slots_parse_redirect(struct slot_redirect *out, const char *text, size_t length, const char *asked_host);

/* True for an error that passes: the cluster is down for a moment, a slot is being moved, a node is loading
 * or has no master. Nothing was executed, or a script began; scripts may be run again (scripts/). */
bool slots_error_passes(const char *text);
/* True for those of them after which a newer map may help. */
bool slots_error_wants_map(const char *text);
#endif
