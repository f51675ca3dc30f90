/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_LOG_STATUS_H
#define SHARD_REQUEST_LOG_STATUS_H
/* The state of a filter in this process: plain values, for status and metrics (control_status()). */
#include <stdbool.h>
#include <stdint.h>
#include "shard/log/tail.h"
#include "shard/request/log_filter.h"
#include "shard/resident/resident.h"
#include "shard/fold/lag.h"
#include "shard/fold/lease.h"
#include "shard/view/log_view.h"
#include "shard/members/lost.h"

enum log_filter_state {
    FILTER_OPENING, /* requests wait */
    FILTER_OPEN,
    FILTER_CLOSED /* requests get the reason */
};
/* "opening", "open", "closed". Static storage. */
const char *log_filter_state_name(enum log_filter_state state);

struct log_lane_status {
    struct log_lane lane;    /* its stream, and the era that the view accepts; era 0: none yet */
    enum tail_state reading; /* TAIL_COMPLETE: it is read; else why not (tail_state_name()) */
    struct log_id applied;   /* the last entry that this process has in memory */
    struct log_id folded;  /* the shards have all entries up to there; zeros: the shards have nothing of this
                            * stream */
    struct lag_count lag;  /* applied, and not folded as far as this process knows */
    uint64_t redis_bytes;  /* of the stream in Redis, when this process last measured it; 0: it has not */
    uint64_t kept_entries; /* own entries that are kept until they are folded */
};

struct log_generation_status {
    uint64_t number; /* 0: no generation is held */
    bool answers;    /* requests look into this one */
    unsigned layers;
    bool counts; /* all keys are counted: shards are in memory, and what came while they loaded is counted */
    uint64_t keys; /* number of keys so far, as far as this process has read the lanes */
    struct resident_status memory;
};

struct log_folder_status {
    bool is_here;                 /* this process has the lease */
    char holder[LEASE_OWNER_MAX]; /* the holder, as far as this process knows; "": nobody, or unknown */
    struct lease_report report;   /* of this process */
};

/* Shards of the current generation that are missing in Redis. */
struct log_lost_status {
    uint64_t since_ms; /* when the view began to say so, by the metadata node's clock; 0: none are missing */
    uint64_t count;    /* number that this process found when it last looked; at least 1 */
    unsigned named;    /* number of those in @shard */
    struct log_lost shard[LOST_NAMED_MAX];
};

struct log_status {
    enum log_filter_state state;
    bool is_missing;          /* its view is not there, though nobody has deleted it */
    char why[LEASE_TEXT_MAX]; /* why it is not open; "": it is */
    enum err adds;            /* not ERR_OK: adds are refused */
    char why_adds[LEASE_TEXT_MAX];
    enum err code; /* of the last control_tend(): what could not be done */
    char error[LEASE_TEXT_MAX];
    uint64_t incarnation, version; /* of the view; 0: none was loaded yet */
    uint64_t looks;                /* how often the view was loaded */
    bool degraded;                 /* no key is reported absent */
    enum lost_remedy remedy;       /* what heals it; lost_remedy_text() says it to people */
    struct log_lost_status lost;
    bool registered;  /* this process may append */
    bool loads;       /* memory has room for all shards of the current generation */
    unsigned writers; /* number of registered writers */
    unsigned parked;  /* number of requests that wait for the control */
    unsigned lanes;
    struct log_lane_status lane[LOG_LANES_MAX];
    struct log_generation_status generation[2];
    struct log_folder_status folder;
};

/* Call @fn for each shard of that generation (resident_shards()). False: it is not held. Any thread. */
MUST_CHECK bool log_filter_shards(struct log_filter *f, uint64_t generation, resident_shard_fn *fn,
                                  void *arg);
#endif
