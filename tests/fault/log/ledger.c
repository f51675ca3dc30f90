/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include "base/clock.h"

struct ledger *ledger_new(void)
{
    void *at = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void ledger_free(struct ledger *l)
{
    (void)munmap(l, sizeof(*l));
}

void ledger_lost(struct ledger *l, uint64_t key, unsigned process)
{
    unsigned i = atomic_fetch_add(&l->losses, 1);
    if (i < LEDGER_LOSSES_MAX)
        l->loss[i] = (struct loss){.key = key, .at_us = clock_mono_us(), .process = process};
}

unsigned ledger_wrong_news(const struct ledger *l)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < LEDGER_NEVER; i++) {
        unsigned news = l->news[i], begun = l->begun[i], ended = l->ended[i];
        if (news <= 1 && (news == 1 || begun == 0 || begun != ended))
            continue;
        if (wrong++ < 5)
            (void)fprintf(stderr, "key %u: new %u times, %u adds began, %u were acknowledged\n", i, news,
                          begun, ended);
    }
    return wrong;
}
