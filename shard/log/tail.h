/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_TAIL_H
#define SHARD_LOG_TAIL_H
/* One tail read of a lane: its replies, taken one after the other, and what they prove. Pure.
 *
 * The entry that the reader holds must be among those that were read, byte for byte: after a failover the
 * same id may name another entry. It is the first one, unless the reader has gone on since the read was sent.
 * The replies count only if the server is a master of the era that the view accepts; INFO, behind them on the
 * same connection, says so. */
#include <stdbool.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "shard/log/lane.h"

enum tail_state {
    TAIL_COMPLETE, /* the lane has no more entries */
    TAIL_MORE,     /* the reply was full: read on */
    TAIL_GAP,      /* the lane was trimmed past the position, or forked: load the shards again */
    TAIL_LOST,     /* the lane is missing */
    TAIL_ERA,      /* another server, or another history: none of its replies counts */
    TAIL_EMPTY,    /* no entry: TAIL_GAP or TAIL_LOST; read again with the length */
    TAIL_NEW,      /* the connection is newer than its owner's last look at the view; lane_reader.h only */
    TAIL_LAYER     /* a layer begins that the reader's owner does not know yet; lane_reader.h only */
};

/* For people: "complete", "another era". Static storage. */
const char *tail_state_name(enum tail_state state);

/* Zero-initialised it is ready. */
struct tail {
    struct buffer entries; /* entries behind the position; each: struct log_id, length, bytes */
    size_t next;           /* offset of the next entry for tail_next() */
    unsigned count;        /* entries of the reply, that of the position included */
    bool is_anchored;      /* the entry of the position was read */
    bool has_length, has_range, has_info;
    uint64_t length; /* of the lane, in entries */
    uint64_t era;    /* of the server; 0: it is no master */
};

void tail_clear(struct tail *t);
void tail_fini(struct tail *t);

/* Take the reply to LANE_LENGTH, LANE_RANGE or LANE_INFO. @from: the position behind which entries are taken;
 * NULL: a look, all of whose entries are taken. The entries are copied. ERR_PARSE: an entry is none, or the
 * reply has another form; ERR_FORMAT: a later version wrote an entry; the text names the lane and the entry.
 * ERR_NOMEM; for an error reply the code of lane_refusal(). */
MUST_CHECK enum err tail_take_length(struct tail *t, const struct lane *lane, const redisReply *reply,
                                     struct error *e);
MUST_CHECK enum err tail_take_range(struct tail *t, const struct lane *lane, const struct log_position *from,
                                    const redisReply *reply, struct error *e);
MUST_CHECK enum err tail_take_info(struct tail *t, const struct lane *lane, const redisReply *reply,
                                   struct error *e);

/* True if the server said that it is not a master of the lane's era. */
bool tail_is_other_era(const struct tail *t, const struct lane *lane);
/* What all the replies together prove. */
enum tail_state tail_state(const struct tail *t, const struct lane *lane);

/* The next entry behind the position (of a look: of all). It is valid until tail_clear(). False: there are
 * no more. */
struct tail_record {
    struct log_id id;
    const uint8_t *bytes;
    uint32_t length;
    struct log_entry entry;
};
MUST_CHECK bool tail_next(struct tail *t, struct tail_record *out);
#endif
