/* SPDX-License-Identifier: MIT */
#include "shard/resident/budget.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/span.h"

/* --- the budget --- */

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

/* --- what the system grants --- */

uint64_t budget_parse_group(const char *text, size_t length)
{
    uint64_t bytes;
    while (length > 0 && text[length - 1] == '\n')
        length--;
    return number_u64(text, length, &bytes) ? bytes : UINT64_MAX; /* "max" */
}

/* "0::/a/b" in version 2; "7:cpu,memory:/a/b" in version 1. */
const char *budget_parse_path(const char *text, size_t length, unsigned version, size_t *path_length)
{
    struct span rest = {text, length}, line;
    while (span_cut(&rest, '\n', &line)) {
        const char *stop = line.at + line.length;
        const char *first = memchr(line.at, ':', line.length);
        const char *second = first == NULL ? NULL : memchr(first + 1, ':', (size_t)(stop - first - 1));
        if (second == NULL || second + 1 == stop || second[1] != '/')
            continue;
        bool found = version == 2 && second == first + 1;
        for (const char *at = first + 1; version == 1 && at < second; at += strcspn(at, ",:") + 1)
            found |= strcspn(at, ",:") == 6 && memcmp(at, "memory", 6) == 0;
        if (!found)
            continue;
        *path_length = (size_t)(stop - second - 1);
        return second + 1;
    }
    return NULL;
}

/* Read the first bytes of a file, and NUL-terminate them. Returns their number. */
static size_t read_file(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    size_t n = f == NULL ? 0 : fread(out, 1, size - 1, f);
    if (f != NULL)
        (void)fclose(f);
    out[n] = '\0';
    return n;
}

uint64_t budget_granted(const char *root, const char *path, const char *file)
{
    char group[PATH_MAX], name[2 * PATH_MAX], text[64];
    uint64_t least = UINT64_MAX;
    (void)snprintf(group, sizeof(group), "%s", strcmp(path, "/") == 0 ? "" : path);
    for (;;) {
        (void)snprintf(name, sizeof(name), "%s%s/%s", root, group, file);
        size_t n = read_file(name, text, sizeof(text));
        uint64_t granted = budget_parse_group(text, n);
        least = granted < least ? granted : least;
        char *parent = strrchr(group, '/');
        if (parent == NULL)
            return least;
        *parent = '\0';
    }
}

static uint64_t granted_by(const char *cgroup, size_t length, unsigned version, const char *root,
                           const char *file)
{
    char path[PATH_MAX];
    size_t n = 0;
    const char *found = budget_parse_path(cgroup, length, version, &n);
    if (found == NULL || n >= sizeof(path))
        return UINT64_MAX;
    memcpy(path, found, n);
    path[n] = '\0';
    return budget_granted(root, path, file);
}

uint64_t budget_default(void)
{
    char text[8192];
    uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    size_t n = read_file("/proc/self/cgroup", text, sizeof(text));
    uint64_t granted[2] = {granted_by(text, n, 2, "/sys/fs/cgroup", "memory.max"),
                           granted_by(text, n, 1, "/sys/fs/cgroup/memory", "memory.limit_in_bytes")};
    for (int i = 0; i < 2; i++)
        least = granted[i] < least ? granted[i] : least;
    return least / 2;
}
