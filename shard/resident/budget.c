/* SPDX-License-Identifier: MIT */
#include "shard/resident/budget.h"

void budget_init(struct budget *b, uint64_t limit)
{
    atomic_init(&b->limit, limit);
    atomic_init(&b->used, 0);
    atomic_init(&b->pinned, 0);
    atomic_init(&b->load_rate, BUDGET_LOAD_RATE);
    atomic_init(&b->load_ns, 0);
}

static bool take(_Atomic uint64_t *taken, uint64_t limit, uint64_t bytes)
{
    uint64_t used = atomic_load(taken);
    do {
        if (used > limit || bytes > limit - used)
            return false;
    } while (!atomic_compare_exchange_weak(taken, &used, used + bytes));
    return true;
}

bool budget_take(struct budget *b, uint64_t bytes)
{
    return take(&b->used, atomic_load(&b->limit), bytes);
}

void budget_give(struct budget *b, uint64_t bytes)
{
    atomic_fetch_sub(&b->used, bytes);
}

bool budget_pin(struct budget *b, uint64_t bytes)
{
    return take(&b->pinned, BUDGET_PINNED_MAX, bytes);
}

void budget_unpin(struct budget *b, uint64_t bytes)
{
    atomic_fetch_sub(&b->pinned, bytes);
}

uint64_t budget_load_at(struct budget *b, uint64_t now, uint32_t bytes)
{
    uint64_t rate = atomic_load(&b->load_rate), now_ns = now * 1000, paid = atomic_load(&b->load_ns), begin;
    if (rate == 0)
        return now;
    const uint64_t late = BUDGET_LOAD_LATE_US * UINT64_C(1000), least = now_ns > late ? now_ns - late : 0;
    do
        begin = paid > least ? paid : least;
    while (!atomic_compare_exchange_weak(&b->load_ns, &paid, begin + UINT64_C(1000000000) * bytes / rate));
    return begin > now_ns ? begin / 1000 : now;
}
