/* SPDX-License-Identifier: MIT */
#include "base/machine.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"

uint64_t machine_read_processors(const char *text)
{
    uint64_t quota, period;
    size_t first = strcspn(text, " "), second = strcspn(text + first, "\n");
    if (second == 0 || !number_u64(text, first, &quota) ||
        !number_u64(text + first + 1, second - 1, &period) || period == 0)
        return UINT64_MAX; /* "max 100000" */
    return quota / period + (quota % period != 0);
}

uint64_t machine_read_memory(const char *text)
{
    uint64_t bytes;
    return number_u64(text, strcspn(text, "\n"), &bytes) ? bytes : UINT64_MAX; /* "max" */
}

/* Read the first bytes of a file, and NUL-terminate them. */
static void read_file(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    size_t n = f == NULL ? 0 : fread(out, 1, size - 1, f);
    if (f != NULL)
        (void)fclose(f);
    out[n] = '\0';
}

uint64_t machine_granted(const char *root, const char *path, const char *file,
                         uint64_t (*read)(const char *text))
{
    char group[PATH_MAX], name[2 * PATH_MAX], text[64];
    uint64_t least = UINT64_MAX;
    (void)snprintf(group, sizeof(group), "%s", strcmp(path, "/") == 0 ? "" : path);
    for (;;) {
        (void)snprintf(name, sizeof(name), "%s%s/%s", root, group, file);
        read_file(name, text, sizeof(text));
        uint64_t granted = read(text);
        least = granted < least ? granted : least;
        char *parent = strrchr(group, '/');
        if (parent == NULL)
            return least;
        *parent = '\0';
    }
}

/* A line is "0::/a/b" in version 2, and "7:cpu,memory:/a/b" in version 1. */
const char *machine_group(const char *text, const char *controller, int *length)
{
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        size_t bytes = strcspn(line, "\n"), wanted = strlen(controller);
        const char *stop = line + bytes, *at = memchr(line, ':', bytes);
        const char *path = at == NULL ? NULL : memchr(at + 1, ':', (size_t)(stop - at - 1));
        bool found = false;
        for (; path != NULL && !found && at < path; at += strcspn(at + 1, ",:") + 1)
            found = strcspn(at + 1, ",:") == wanted && memcmp(at + 1, controller, wanted) == 0;
        if (found && path + 1 < stop && path[1] == '/') {
            *length = (int)(stop - path - 1);
            return path + 1;
        }
        line = stop;
    }
    return NULL;
}

static uint64_t granted_by(const char *controller, const char *root, const char *file,
                           uint64_t (*read)(const char *text))
{
    char text[8192], path[PATH_MAX];
    int n = 0;
    read_file("/proc/self/cgroup", text, sizeof(text));
    const char *found = machine_group(text, controller, &n);
    if (found == NULL || n >= (int)sizeof(path))
        return UINT64_MAX;
    (void)snprintf(path, sizeof(path), "%.*s", n, found);
    return machine_granted(root, path, file, read);
}

unsigned machine_processors(void)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned usable = online < 1 ? 1 : (unsigned)online;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        usable = (unsigned)CPU_COUNT(&set);
    uint64_t granted = granted_by("", "/sys/fs/cgroup", "cpu.max", machine_read_processors);
    return granted > 0 && granted < usable ? (unsigned)granted : usable;
}

static uint64_t memory;

static void find_memory(void)
{
    const uint64_t bounds[] = {
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
        granted_by("", "/sys/fs/cgroup", "memory.max", machine_read_memory),
        granted_by("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", machine_read_memory)};
    memory = UINT64_MAX;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        memory = bounds[i] < memory ? bounds[i] : memory;
}

uint64_t machine_memory(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, find_memory);
    return memory;
}
