/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_KEY_REQUEST_H
#define SHARD_REQUEST_KEY_REQUEST_H
/* One check or one add of keys, from its beginning to its acknowledged end.
 *
 * A check looks into memory. Keys with all bits set are present, at once; for the others it waits for a tail
 * read of their lanes that begins now, and then looks again. An add appends its keys to their lanes, and is
 * answered once they were met there; and, if replicas or disks must have them, once these have acknowledged
 * that. */
#include <sys/queue.h>
#include "shard/redis/acks.h"
#include "shard/log/lane_reader.h"
#include "shard/request/log_filter.h"
#include "shard/request/request_port.h"

enum { KEY_REQUEST_MAX = LANE_REQUEST_KEYS_MAX /* number of keys */ };

enum key_answer {
    KEY_ABSENT, /* no add of the key was acknowledged before the check began */
    KEY_PRESENT,
    KEY_MAYBE,     /* not found, but the filter may have lost acknowledged keys */
    KEY_ADDED,     /* it was absent before, by the log */
    KEY_OLD,       /* it was present before, or seemed to be */
    KEY_NO_ROOM,   /* absent, and not added: the filter does not grow, and is full */
    KEY_NO_ANSWER, /* of a check that failed */
    KEY_UNSURE /* present now; whether it was before is unknown: the lanes broke, another generation answers,
                * or the filter may have lost acknowledged keys */
};

struct request_key {
    const void *bytes;
    size_t length;
};

/* What an add does if there is no room for all of its keys. */
enum key_room {
    KEY_ROOM_WAITS, /* wait until the filter has grown */
    KEY_ROOM_ENDS,  /* end with ERR_FULL before any key is added: the caller does not let the filter grow,
                     * yet */
    KEY_ROOM_LOOKS  /* add the keys that there is room for, and only look for the others */
};

/* The terms of an add: what it does without room; and which replicas or disks of the lanes' nodes must have
 * its keys before it ends, which is asked until the deadline (then ERR_TIMEOUT, or ERR_REFUSED if a node
 * cannot tell). */
struct key_terms {
    enum key_room room;
    struct ack_need need;
};

struct key_request;
/* @code: that of log_filter_close(), those of the lanes (lane_reader.h), ERR_TIMEOUT, ERR_CANCELLED,
 * ERR_NOMEM; @text says why. After an error keys of an add may be in the filter or not, and have no answers;
 * keys of a check have the answers that were known by then, or KEY_NO_ANSWER. */
typedef void key_done_fn(void *arg, enum err code, const char *text);

struct held;
struct key_acks;
struct lane_part;
struct block_read;

/* Lies in the caller's storage until its callback runs. The fields belong to the request. */
struct key_request {
    TAILQ_ENTRY(key_request) active; /* in the port's list, by deadline */
    TAILQ_ENTRY(key_request) parked; /* in the filter's list; or in the port's, until acks are asked again */
    struct worker_queue_item ready;  /* in the port's queue of requests to go on with */
    struct request_port *port;
    struct log_filter *filter;
    struct held *held; /* what it looks into; NULL: nothing yet */
    const struct request_key *keys;
    uint8_t *answers;
    key_done_fn *done;
    void *arg;
    unsigned count;
    unsigned from, part; /* the keys under way now: an add without room for all keys is done in parts */
    unsigned left;       /* keys of the part; of a check: keys not found yet, which come first in the order */
    unsigned reserved;   /* room that is reserved in the generation */
    bool adds, is_sent;
    struct key_terms terms; /* of an add */
    bool waits_for_room;
    bool waits_for_fold; /* this process keeps many entries of its own, until they are folded */
    bool was_slowed;     /* once is enough */
    unsigned refusals;   /* the generation's refusals when it began to wait for room */
    uint64_t looks;      /* looks at the view begun before it: only a later one can find the view lost */
    bool was_delayed;    /* its keys did not leave within the call that began it: a later request may be ahead
                          * of it */
    bool only_looks;     /* it adds to a generation that is full */
    bool is_blind;       /* a shard is lost, and the filter is degraded: blocks are not read */
    bool was_degraded;   /* whether the filter was degraded when it was last bound; how often it had become
                          * so */
    unsigned degradations;
    uint64_t term; /* of the filter, when it was last bound; 0: its keys are sent even if they are there */
    _Atomic uint8_t state;
    uint64_t deadline;
    uint64_t changes;                /* of the filter, when it was last bound */
    uint64_t looked_at;              /* resident_changes() before the last look */
    struct key_hash *hashes;         /* of the keys of the part, ordered by lane */
    unsigned *order;                 /* the index in the part of each hash's key */
    uint8_t *found;                  /* of each hash: enum resident_answer, then enum resident_added */
    uint8_t *before;                 /* of each hash of an add: enum resident_answer before it was sent */
    struct block_read *blocks;       /* of keys in shards that are not in memory; NULL: none */
    struct trusted *eras;            /* the eras for reading these blocks */
    struct lane_part *parts;         /* one for each lane */
    struct key_acks *acks;           /* that were asked for; NULL: none are under way */
    unsigned parts_count, under_way; /* under_way: lanes and block reads that have yet to answer */
    enum err code;
    char text[200];
};

/* Look up @count keys, 1 to KEY_REQUEST_MAX. @keys and @answers (enum key_answer of each;
 * KEY_NO_ANSWER at first, which this sets) are borrowed until @done; a key that is found gets its answer
 * earlier. True: all keys are present, and @done is not called. */
MUST_CHECK bool key_check(struct request_port *p, struct log_filter *f, struct key_request *q,
                          const struct request_key *keys, unsigned count, uint8_t *answers, key_done_fn *done,
                          void *arg);
/* Add @count keys; otherwise as key_check(). @done is never called from inside this call. @terms NULL: wait
 * for room, and for no replica. */
void key_add(struct request_port *p, struct log_filter *f, struct key_request *q,
             const struct request_key *keys, unsigned count, uint8_t *answers, const struct key_terms *terms,
             key_done_fn *done, void *arg);
/* True for an add that has not ended, and whose keys are all on their way to their lanes, ahead of those of
 * any add that this port begins later. */
bool key_request_is_in_order(const struct key_request *q);
#endif
