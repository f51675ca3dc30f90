/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_IDLE_H
#define SHARD_REQUEST_IDLE_H
/* When a filter that nobody asks for rests, and what becomes of its memory. Pure.
 *
 *   it was asked for within `rest`, or something is to be done   it does not rest
 *   it rests, with little in memory                              nothing is sent
 *   ... and was not asked for within `resident_idle`             its memory is given back
 *   it rests, with much in memory (`dear`)                       its lanes are read now and then
 *
 * Lanes that are not read are trimmed past us some time, and all must be loaded again. */
#include <stdbool.h>
#include <stdint.h>

enum {
    IDLE_DEAR_BYTES = 64 << 20, /* a sixth of a second of loading (BUDGET_LOAD_RATE) */
    IDLE_TAIL_US = 20 * 1000 * 1000
};
#define IDLE_NEVER UINT64_MAX

enum idle_action {
    IDLE_BUSY, /* it does not rest */
    IDLE_REST,
    IDLE_TAIL, /* it rests; its lanes are to be read */
    IDLE_DROP  /* it rests; its memory is to be given back */
};

/* Times are monotonic, in us. */
struct idle_facts {
    uint64_t now, asked_at;         /* a check or an add came last */
    uint64_t rest;                  /* 0: it never rests */
    uint64_t resident_idle;         /* 0: what is in memory stays there */
    uint64_t resident_bytes;        /* of shards in memory */
    uint64_t dear;                  /* bytes that are dear to load again */
    uint64_t tailed_at, tail_every; /* its lanes were read last; are read so often */
    bool is_needed;                 /* something is to be done for it */
};

/* *@next: when to ask again if nothing changes; IDLE_NEVER: not before it is asked for. */
enum idle_action idle_decide(const struct idle_facts *f, uint64_t *next);
#endif
