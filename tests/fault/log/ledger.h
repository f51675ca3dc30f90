/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_LEDGER_H
#define TESTS_FAULT_LOG_LEDGER_H
/* What processes were told of each key, in memory that they share. Keys are numbers below LEDGER_KEYS; those
 * from LEDGER_NEVER on are never added. */
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
    uint64_t key, at_ms; /* by the clock of the entries' ids */
    unsigned process;
};

struct note {
    uint64_t at_ms;
    char text[LEDGER_NOTE_BYTES];
};

struct ledger {
    _Atomic uint8_t acknowledged[LEDGER_KEYS];
    _Atomic uint8_t news[LEDGER_KEYS];   /* how often it was told to be new */
    _Atomic uint16_t begun[LEDGER_KEYS]; /* adds that began, and that were acknowledged */
    _Atomic uint16_t ended[LEDGER_KEYS];
    _Atomic uint64_t first_ms[LEDGER_KEYS]; /* when it was acknowledged first, and by which worker */
    _Atomic uint8_t first_by[LEDGER_KEYS];
    _Atomic uint64_t
        turn[WORKERS]; /* of each worker: odd while it adds, from before the request to its entries here */
    _Atomic uint64_t done[WORKERS];                              /* requests of each that were answered */
    _Atomic bool resident[WORKERS];                              /* each had all shards in memory */
    _Atomic uint64_t begins_us;                                  /* when faults begin; 0: not yet */
    _Atomic uint64_t cutovers, rollbacks, retired, broken_turns; /* of builders */
    _Atomic uint64_t adds, checks, maybe, refused;               /* keys; the last: requests */
    _Atomic unsigned losses;
    struct loss loss[LEDGER_LOSSES_MAX];
    _Atomic unsigned notes; /* so many were written: the last ones are kept */
    struct note note[LEDGER_NOTES];
    _Atomic bool stop;
};

/* Shared with processes that are forked later. NULL: no memory. */
struct ledger *ledger_new(void);
void ledger_free(struct ledger *l);

/* An add of @key was acknowledged to worker @process. */
void ledger_acknowledge(struct ledger *l, uint64_t key, unsigned process);
void ledger_lost(struct ledger *l, uint64_t key, unsigned process);
/* How many keys were new twice. *@never: of those of which every add was acknowledged, how many were never
 * new: false positives, or wrong. Tells of the first on stderr. */
unsigned ledger_wrong_news(const struct ledger *l, unsigned *never);

/* What happened, and when, for the report of a lost key. Any process. */
void ledger_note(struct ledger *l, const char *format, ...) PRINTF_LIKE(2, 3);
void ledger_print_notes(const struct ledger *l, FILE *to);
#endif
