/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BUDGET_H
#define SHARD_RESIDENT_BUDGET_H
/* `resident_memory`: how many bytes the shards in memory may take, for all filters of a process together; and
 * how fast shards are loaded. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct budget {
    _Atomic uint64_t limit; /* bytes; 0: no shard may be in memory */
    _Atomic uint64_t used;
    _Atomic uint64_t pinned;    /* bytes pinned by requests (blocks.h); they do not count against @limit,
                                 * which may be 0 */
    _Atomic uint64_t load_rate; /* bytes a second to ask Redis for; 0: no limit */
    _Atomic uint64_t load_ns;   /* monotonic, ns: when the bytes asked for so far are paid for */
};

enum {
    BUDGET_PINNED_MAX = 64 << 20,
    BUDGET_LOAD_RATE = 350 * 1000 * 1000, /* of budget_init(): at this rate loads do not delay requests to
                                           * Redis */
    BUDGET_LOAD_LATE_US = 3000            /* the most time that is made up for: without a processor, mostly */
};

void budget_init(struct budget *b, uint64_t limit);
/* False: there is no room for @bytes more. */
bool budget_take(struct budget *b, uint64_t bytes);
void budget_give(struct budget *b, uint64_t bytes);
/* As above, for pinned blocks: at most BUDGET_PINNED_MAX. */
bool budget_pin(struct budget *b, uint64_t bytes);
void budget_unpin(struct budget *b, uint64_t bytes);
/* When @bytes more of shards may be asked of Redis: monotonic us, not before @now. They count as asked for
 * then. Any thread. */
uint64_t budget_load_at(struct budget *b, uint64_t now, uint32_t bytes);
#endif
