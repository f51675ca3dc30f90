/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BUDGET_H
#define SHARD_RESIDENT_BUDGET_H
/* `resident_memory`: how many bytes the shards in memory may take, all filters of a process together; and how
 * fast they are loaded. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget {
    _Atomic uint64_t limit; /* bytes; 0: nothing is in memory */
    _Atomic uint64_t used;
    _Atomic uint64_t pinned;    /* by requests under way (blocks.h), beside the limit: it may be 0 */
    _Atomic uint64_t load_rate; /* bytes a second that are asked of Redis; 0: as fast as they come */
    _Atomic uint64_t load_ns;   /* monotonic: what was asked for is paid for then */
};

enum {
    BUDGET_PINNED_MAX = 64 << 20,
    BUDGET_LOAD_RATE = 350 * 1000 * 1000, /* of budget_init(): requests wait no longer for Redis than alone */
    BUDGET_LOAD_BURST = 128 << 10         /* bytes that may be made up for at once */
};

void budget_init(struct budget *b, uint64_t limit);
/* Nothing that is in memory leaves it by this; there is no room until enough has. */
void budget_set(struct budget *b, uint64_t limit);
/* False: there is no room for so many more bytes. */
bool budget_take(struct budget *b, uint64_t bytes);
void budget_give(struct budget *b, uint64_t bytes);
/* The same for pinned blocks, at most BUDGET_PINNED_MAX. */
bool budget_pin(struct budget *b, uint64_t bytes);
void budget_unpin(struct budget *b, uint64_t bytes);
/* When, not before @now, @bytes more of shards may be asked of Redis: monotonic, us. They are taken to be
 * asked for then. Any thread. */
uint64_t budget_load_at(struct budget *b, uint64_t now, uint32_t bytes);

/* What a group may use, as memory.max (version 2) or memory.limit_in_bytes (version 1) says it. UINT64_MAX:
 * no bound. */
uint64_t budget_parse_group(const char *text, size_t length);
/* Bytes of the machine, as /proc/meminfo says it. 0: it does not. */
uint64_t budget_parse_machine(const char *text, size_t length);
/* The path of the process' group, as /proc/self/cgroup says it; @version 1 or 2. NULL: there is none; else
 * *@length bytes within @text. */
const char *budget_parse_path(const char *text, size_t length, unsigned version, size_t *path_length);

/* The least that the group @path ("/a/b") and those above it may use, by their files @file, of the hierarchy
 * that is mounted at @root. A group that is not there (a container sees its own group as the root) has no
 * bound. UINT64_MAX: no bound. */
uint64_t budget_granted(const char *root, const char *path, const char *file);

/* Half of what this process may use: the machine's memory, or less where a control group bounds it. */
uint64_t budget_default(void);
#endif
