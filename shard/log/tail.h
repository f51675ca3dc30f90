/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_TAIL_H
#define SHARD_LOG_TAIL_H
/* One tail read of a lane: its replies, taken one after the other, and what they prove. Pure.
 *
 * The first entry must be the very one that the reader holds, byte for byte: an id alone may name another
 * entry after a failover. The replies count only if the server that gave them, asked behind them on the same
 * connection, is a master of the era that the view has accepted. */
#include <stdbool.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "shard/log/lane.h"

enum tail_state {
    TAIL_COMPLETE, /* all that the lane had */
    TAIL_MORE,     /* the reply was full: read on */
    TAIL_GAP,      /* the lane was trimmed past the position, or forked: shards must be loaded again */
    TAIL_LOST,     /* the lane is missing */
    TAIL_ERA,      /* another server, or another history: nothing that it said counts */
    TAIL_EMPTY,    /* no entry: TAIL_GAP or TAIL_LOST; read again with the length */
    TAIL_NEW,  /* over a connection that is younger than what the reader's owner knows; of lane_reader.h alone
                */
    TAIL_LAYER /* a layer begins that the reader's owner does not know yet; of lane_reader.h alone */
};

/* For people: "complete", "another era". Static storage. */
const char *tail_state_name(enum tail_state state);

/* Zero-initialised it is ready. */
struct tail {
    struct buffer entries; /* behind the first; each: struct log_id, length, bytes */
    size_t next;           /* of tail_next(), in the entries */
    unsigned count;        /* of the reply, the first included */
    bool is_anchored;      /* the first entry is that of the position */
    bool has_length, has_range, has_info;
    uint64_t length; /* of the lane */
    uint64_t era;    /* of the server; 0: it is no master */
};

void tail_clear(struct tail *t);
void tail_fini(struct tail *t);

/* The replies to LANE_LENGTH, LANE_RANGE (from @from on; NULL: of a look, all of which is taken) and
 * LANE_INFO. The entries are copied. ERR_PARSE: an
 * entry is none, or the reply is none of that command; ERR_FORMAT: an entry of a later version; the text
 * names the lane and the entry. ERR_NOMEM; an error reply: as lane_refusal(). */
MUST_CHECK enum err tail_take_length(struct tail *t, const struct lane *lane, const redisReply *reply,
                                     struct error *e);
MUST_CHECK enum err tail_take_range(struct tail *t, const struct lane *lane, const struct log_position *from,
                                    const redisReply *reply, struct error *e);
MUST_CHECK enum err tail_take_info(struct tail *t, const struct lane *lane, const redisReply *reply,
                                   struct error *e);

/* The server has said that it is not a master of the lane's era. */
bool tail_is_other_era(const struct tail *t, const struct lane *lane);
/* What all of them together prove. */
enum tail_state tail_state(const struct tail *t, const struct lane *lane);

/* The entries behind the first one (of a look all), in order; they are valid until tail_clear(). False: there
 * are no more. */
struct tail_record {
    struct log_id id;
    const uint8_t *bytes;
    uint32_t length;
    struct log_entry entry;
};
MUST_CHECK bool tail_next(struct tail *t, struct tail_record *out);
#endif
