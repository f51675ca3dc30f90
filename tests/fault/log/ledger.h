/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_LEDGER_H
#define TESTS_FAULT_LOG_LEDGER_H
/* What processes were told of each key, in memory that they share. Keys are numbers below LEDGER_KEYS; those
 * from LEDGER_NEVER on are never added. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { WORKERS = 3, LEDGER_KEYS = 60000, LEDGER_NEVER = 50000, LEDGER_LOSSES_MAX = 64 };

struct loss {
    uint64_t key, at_us;
    unsigned process;
};

struct ledger {
    _Atomic uint8_t acknowledged[LEDGER_KEYS];
    _Atomic uint8_t news[LEDGER_KEYS];   /* how often it was told to be new */
    _Atomic uint16_t begun[LEDGER_KEYS]; /* adds that began, and that were acknowledged */
    _Atomic uint16_t ended[LEDGER_KEYS];
    _Atomic uint64_t
        turn[WORKERS]; /* of each worker: odd while it adds, from before the request to its entries here */
    _Atomic uint64_t done[WORKERS];                              /* requests of each that were answered */
    _Atomic uint64_t cutovers, rollbacks, retired, broken_turns; /* of builders */
    _Atomic uint64_t adds, checks, maybe, refused;               /* keys; the last: requests */
    _Atomic unsigned losses;
    struct loss loss[LEDGER_LOSSES_MAX];
    _Atomic bool stop;
};

/* Shared with processes that are forked later. NULL: no memory. */
struct ledger *ledger_new(void);
void ledger_free(struct ledger *l);

void ledger_lost(struct ledger *l, uint64_t key, unsigned process);
/* How many keys were new twice, or, of those of which every add was acknowledged, never. Tells of the first
 * on stderr. */
unsigned ledger_wrong_news(const struct ledger *l);
#endif
