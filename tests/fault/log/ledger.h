/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_LEDGER_H
#define TESTS_FAULT_LOG_LEDGER_H
/* The answers that processes got for each key, in memory that they share. Keys are numbers below LEDGER_KEYS;
 * those from LEDGER_NEVER on are never added. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/error.h"

enum {
    WORKERS = 3,
    LEDGER_KEYS = 60000,
    LEDGER_NEVER = 50000,
    LEDGER_LOSSES_MAX = 64,
    LEDGER_NOTES = 4096,
    LEDGER_NOTE_BYTES = 200
};

struct loss {
    uint64_t key, at_ms; /* by the clock that gives entries their ids */
    unsigned process;
};

struct note {
    uint64_t at_ms;
    char text[LEDGER_NOTE_BYTES];
};

struct ledger {
    _Atomic uint8_t acknowledged[LEDGER_KEYS];
    _Atomic uint8_t news[LEDGER_KEYS];   /* how often an add answered that it is new */
    _Atomic uint16_t begun[LEDGER_KEYS]; /* adds that began; @ended: that were acknowledged */
    _Atomic uint16_t ended[LEDGER_KEYS];
    _Atomic uint64_t first_ms[LEDGER_KEYS]; /* when the first add was acknowledged, and to which worker */
    _Atomic uint8_t first_by[LEDGER_KEYS];
    _Atomic uint64_t turn[WORKERS]; /* of each worker: odd from before an add's request until its results are
                                       in the ledger */
    _Atomic uint64_t done[WORKERS]; /* answered requests of each worker */
    _Atomic bool resident[WORKERS]; /* the worker has had all shards in memory */
    _Atomic uint64_t begins_us;     /* when faults begin; 0: not yet */
    _Atomic uint64_t cutovers, rollbacks, retired, broken_turns; /* of builders */
    _Atomic uint64_t adds, checks, maybe, refused;               /* counts of keys; @refused: of requests */
    _Atomic unsigned losses;
    struct loss loss[LEDGER_LOSSES_MAX];
    _Atomic unsigned notes; /* how many were written; the last ones are kept */
    struct note note[LEDGER_NOTES];
    _Atomic bool stop;
};

/* A ledger in memory that is shared with processes that are forked later. NULL: no memory. */
struct ledger *ledger_new(void);
void ledger_free(struct ledger *l);

/* An add of @key was acknowledged to worker @process. */
void ledger_acknowledge(struct ledger *l, uint64_t key, unsigned process);
void ledger_lost(struct ledger *l, uint64_t key, unsigned process);
/* Counts the keys that were new twice. *@never counts the keys that were never new though every add was
 * acknowledged: false positives, or errors. Prints the first few to stderr. */
unsigned ledger_wrong_news(const struct ledger *l, unsigned *never);

/* Write a note, with the time, for the report of a lost key. Any process. */
void ledger_note(struct ledger *l, const char *format, ...) PRINTF_LIKE(2, 3);
void ledger_print_notes(const struct ledger *l, FILE *to);
#endif
