/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_KEY_REQUEST_H
#define SHARD_REQUEST_KEY_REQUEST_H
/* One check or one add of keys, from its beginning to its acknowledged end.
 *
 * A check looks into memory. Keys of which all bits are set are present, at once; for the others a tail read
 * of their lanes that begins now is waited for, and then they are looked up again. An add appends its keys to
 * their lanes, and has its answer when they were met there; where replicas or disks must have them, when
 * these have acknowledged that. */
#include <sys/queue.h>
#include "shard/redis/acks.h"
#include "shard/log/lane_reader.h"
#include "shard/request/log_filter.h"
#include "shard/request/request_port.h"

enum { KEY_REQUEST_MAX = LANE_REQUEST_KEYS_MAX /* keys */ };

enum key_answer {
    KEY_ABSENT, /* no add of it was acknowledged before the check began */
    KEY_PRESENT,
    KEY_MAYBE,     /* it was not found, and the filter may have lost acknowledged keys */
    KEY_ADDED,     /* it was not there before, as the log has it */
    KEY_OLD,       /* it was, or seemed to be */
    KEY_NO_ROOM,   /* it is not there, and was not added: the filter does not grow, and is full */
    KEY_NO_ANSWER, /* of a check that failed */
    KEY_UNSURE /* it is there now; the lanes broke meanwhile, another generation answers, or the filter may
                * have lost acknowledged keys, so that nobody can tell whether it was before */
};

struct request_key {
    const void *bytes;
    size_t length;
};

/* What an add does where there is no room for all of its keys. */
enum key_room {
    KEY_ROOM_WAITS, /* until the filter has grown */
    KEY_ROOM_ENDS, /* it ends with ERR_FULL before it has added any: whoever adds may not have it grow, yet */
    KEY_ROOM_LOOKS /* it adds those that there is room for, and only looks for the others */
};

/* Of an add: what it does without room; and which replicas or disks of the lanes' nodes must have its keys
 * before it is told, which is asked until the deadline (then ERR_TIMEOUT, or ERR_REFUSED where a node cannot
 * tell). */
struct key_terms {
    enum key_room room;
    struct ack_need need;
};

struct key_request;
/* @code as log_filter_close() was given, of the lanes (lane_reader.h), ERR_TIMEOUT, ERR_CANCELLED, ERR_NOMEM;
 * @text says why. On error keys of an add may be in the filter or not, and have no answers; keys of a check
 * have the answer that was known by then, or KEY_NO_ANSWER. */
typedef void key_done_fn(void *arg, enum err code, const char *text);

struct held;
struct key_acks;
struct lane_part;
struct block_read;

/* In the storage of whoever asks, until it is told or cancelled; the fields are the request's. */
struct key_request {
    TAILQ_ENTRY(key_request) active; /* of the port, by deadline */
    TAILQ_ENTRY(key_request)
    parked; /* of the filter; or of the port, until it asks for acknowledgements again */
    struct worker_queue_item ready; /* of the port, to go on with */
    struct request_port *port;
    struct log_filter *filter;
    struct held *held; /* what it looks into; NULL: nothing yet */
    const struct request_key *keys;
    uint8_t *answers;
    key_done_fn *done;
    void *arg;
    unsigned count;
    unsigned from,
        part; /* the keys that are under way now: an add is done in parts where there is not room for all */
    unsigned left;     /* keys of the part; of a check: those, first in the order, that were not found yet */
    unsigned reserved; /* of the generation's room */
    bool adds, is_sent;
    struct key_terms terms; /* of an add */
    bool waits_for_room;
    bool waits_for_fold; /* this process keeps many entries of its own, until they are folded */
    bool was_slowed;     /* once is enough */
    unsigned refusals;   /* of the generation, since it waits for room */
    uint64_t
        looks; /* at the view that had been begun when the request was; it is lost if a later one misses it */
    bool was_delayed;  /* its keys did not leave in the call that began it: a later request may be ahead of it
                        */
    bool only_looks;   /* it adds to a generation that is full */
    bool is_blind;     /* a shard is lost, and the filter is degraded: no blocks are read */
    bool was_degraded; /* the filter, when it was bound last; and how often that had begun */
    unsigned degradations;
    uint8_t state;
    uint64_t deadline;
    uint64_t changes;                /* of the filter, when it was bound last */
    uint64_t looked_at;              /* resident_changes(), before it was looked into */
    struct key_hash *hashes;         /* of the keys of the part, ordered by lane */
    unsigned *order;                 /* which key of the part each one is */
    uint8_t *found;                  /* of each: enum resident_answer, then enum resident_added */
    uint8_t *before;                 /* of each key of an add: enum resident_answer, before it was sent */
    struct block_read *blocks;       /* of keys in shards that are not in memory; NULL: none */
    struct trusted *eras;            /* that these are read by */
    struct lane_part *parts;         /* one for each lane */
    struct key_acks *acks;           /* that were asked for; NULL: none are under way */
    unsigned parts_count, under_way; /* lanes and blocks that were asked for, and that are not told yet */
    enum err code;
    char text[200];
};

/* Look up @count keys, 1 to KEY_REQUEST_MAX. @keys and @answers (enum key_answer of each; KEY_NO_ANSWER at
 * first) are borrowed until it is told; a key that is found has its answer before. True: all are present, and
 * nobody is told. */
MUST_CHECK bool key_check(struct request_port *p, struct log_filter *f, struct key_request *q,
                          const struct request_key *keys, unsigned count, uint8_t *answers, key_done_fn *done,
                          void *arg);
/* Add @count keys; the same otherwise. Never told from inside this call. @terms: NULL: it waits for room,
 * and for no replica. */
void key_add(struct request_port *p, struct log_filter *f, struct key_request *q,
             const struct request_key *keys, unsigned count, uint8_t *answers, const struct key_terms *terms,
             key_done_fn *done, void *arg);
/* An add that was begun, and is not told yet: its keys are on their way to their lanes, all of them, ahead of
 * those of any add that this port begins later. */
bool key_request_is_in_order(const struct key_request *q);
/* It is not told any more. What it has sent may be executed. */
void key_cancel(struct key_request *q);
#endif
