/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/ledger.h"

#include <inttypes.h>
#include <stdarg.h>
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

static uint64_t now_ms(void)
{
    return clock_wall_us() / 1000;
}

void ledger_acknowledge(struct ledger *l, uint64_t key, unsigned process)
{
    if (atomic_load(&l->acknowledged[key]))
        return;
    l->first_by[key] = (uint8_t)process;
    l->first_ms[key] = now_ms();
    atomic_store(&l->acknowledged[key], 1);
}

void ledger_lost(struct ledger *l, uint64_t key, unsigned process)
{
    unsigned i = atomic_fetch_add(&l->losses, 1);
    if (i < LEDGER_LOSSES_MAX)
        l->loss[i] = (struct loss){.key = key, .at_ms = now_ms(), .process = process};
}

unsigned ledger_wrong_news(const struct ledger *l, unsigned *never)
{
    unsigned twice = 0;
    *never = 0;
    for (unsigned i = 0; i < LEDGER_NEVER; i++) {
        unsigned news = l->news[i], begun = l->begun[i], ended = l->ended[i];
        bool is_never = news == 0 && begun > 0 && begun == ended;
        twice += news > 1;
        *never += is_never;
        if ((news > 1 || is_never) && twice + *never <= 5)
            (void)fprintf(stderr, "key %u: new %u times, %u adds began, %u were acknowledged\n", i, news,
                          begun, ended);
    }
    return twice;
}

void ledger_note(struct ledger *l, const char *format, ...)
{
    struct note *n = &l->note[atomic_fetch_add(&l->notes, 1) % LEDGER_NOTES];
    va_list list;
    va_start(list, format);
    n->at_ms = now_ms();
    (void)vsnprintf(n->text, sizeof(n->text), format, list);
    va_end(list);
}

void ledger_print_notes(const struct ledger *l, FILE *to)
{
    unsigned end = l->notes, begin = end < LEDGER_NOTES ? 0 : end - LEDGER_NOTES;
    for (unsigned i = begin; i < end; i++)
        (void)fprintf(to, "%" PRIu64 " %s\n", l->note[i % LEDGER_NOTES].at_ms,
                      l->note[i % LEDGER_NOTES].text);
}
