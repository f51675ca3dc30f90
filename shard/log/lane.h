/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_LANE_H
#define SHARD_LOG_LANE_H
/* A lane: a stream in Redis, which is the log of some of a filter's keys; a key's hash says which lane. Here
 * are the lane's name, the commands on it, and the meaning of an error reply to them. Pure.
 *
 * A lane is made with its first entry, the anchor, before a view names it. It is never empty: readers hold
 * the last entry that they applied, and trimming keeps that entry. Appends never make a lane (NOMKSTREAM). */
#include <stdbool.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/log/position.h"
#include "shard/filter/names.h"

struct lane {
    struct key_name key;
    unsigned where; /* the address of its node (nodes.h) */
    uint64_t era;   /* the node's replication id that the view accepts, by info_id(); 0: none */
};

/* "P:{F.lane}:<incarnation>.log<number>" */
void lane_key(struct key_name *out, const struct names *names, unsigned lane, uint64_t number);

/* --- commands that go to one server together, in one write --- */

enum lane_command {
    LANE_ADD,    /* XADD of an entry */
    LANE_LENGTH, /* XLEN; sent only to tell a lost lane from a trimmed or forked one */
    LANE_RANGE,  /* XRANGE from a position on, that entry included */
    LANE_INFO    /* INFO replication: it decides whether the replies before it count */
};

enum { LANE_COMMANDS_MAX = 36, LANE_RANGE_COUNT = 512 /* entries of a tail read */ };

/* Zero-initialised it is empty. */
struct lane_commands {
    struct buffer bytes;
    unsigned count;
    uint8_t kind[LANE_COMMANDS_MAX]; /* enum lane_command */
    size_t end[LANE_COMMANDS_MAX];   /* the end of each command in @bytes */
};

/* Forget all commands, and keep the memory. */
void lane_commands_clear(struct lane_commands *c);
void lane_commands_fini(struct lane_commands *c);
void lane_commands_add(struct lane_commands *c, const struct lane *lane, const void *entry, size_t length);
/* XRANGE of at most @limit entries from @from on, behind XLEN if @with_length; and INFO. */
void lane_commands_range(struct lane_commands *c, const struct lane *lane, struct log_id from, unsigned limit,
                         bool with_length);

/* --- replies --- */

/* The code for an error reply to a command on the lane; the text names the lane. ERR_UNREACHABLE: the error
 * passes. ERR_WRONG_TYPE: the key is no stream. ERR_CONFLICT: the last id is the highest possible one, so the
 * lane must be replaced. ERR_NOMEM: Redis has no memory. ERR_REFUSED: anything else. */
enum err lane_refusal(const struct lane *lane, const redisReply *reply, struct error *e);
/* The id that XADD returned. ERR_PARSE: the reply is no id. */
MUST_CHECK enum err lane_take_id(const struct lane *lane, const redisReply *reply, struct log_id *out,
                                 struct error *e);
#endif
