/* SPDX-License-Identifier: MIT */
#ifndef SHARD_CONTROL_IDLE_H
#define SHARD_CONTROL_IDLE_H
/* When a filter that nobody asks for rests, and what happens to its memory. Pure.
 *
 *   there was a request within `rest`, or there is work to do    it does not rest
 *   it rests, with little in memory                              nothing is sent
 *   ... and there was no request within `resident_idle`          its memory is given back
 *   it rests, with much in memory (`dear`)                       its lanes are read now and then
 *
 * Lanes that are not read are trimmed past this process after some time, and then all must be loaded
 * again. */
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
    IDLE_TAIL, /* it rests; read its lanes */
    IDLE_DROP  /* it rests; give its memory back */
};

/* Times are monotonic, in us. */
struct idle_facts {
    uint64_t now, asked_at;         /* asked_at: the last check or add */
    uint64_t rest;                  /* 0: it never rests */
    uint64_t resident_idle;         /* 0: shards stay in memory */
    uint64_t resident_bytes;        /* of shards in memory */
    uint64_t dear;                  /* from so many bytes on it is expensive to load again */
    uint64_t tailed_at, tail_every; /* when its lanes were last read; how often to read them */
    bool is_needed;                 /* there is work to do */
};

/* *@next: when to ask again if nothing changes; IDLE_NEVER: not before the next request. */
enum idle_action idle_decide(const struct idle_facts *f, uint64_t *next);
#endif
