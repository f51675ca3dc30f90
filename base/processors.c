/* SPDX-License-Identifier: MIT */
#include "base/processors.h"

#include <limits.h>
#include <stdbool.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"

/* Processors that a line "QUOTA PERIOD\n" or "max PERIOD\n" of cpu.max allows, rounded up; 0: no bound. */
static unsigned read_grant(const char *line)
{
    uint64_t quota, period;
    size_t first = strcspn(line, " "), second = strcspn(line + first, "\n");
    if (second == 0 || !number_u64(line, first, &quota) ||
        !number_u64(line + first + 1, second - 1, &period) || period == 0)
        return 0;
    uint64_t granted = quota / period + (quota % period != 0);
    return granted > INT_MAX ? 0 : (unsigned)granted;
}

/* The bound of one group, without those above it; 0: none. */
static unsigned granted_by(const char *root, const char *path)
{
    char name[PATH_MAX], line[64] = "";
    if (snprintf(name, sizeof(name), "%s%s/cpu.max", root, path) >= (int)sizeof(name))
        return 0;
    FILE *f = fopen(name, "re");
    if (f == NULL)
        return 0;
    if (fgets(line, sizeof(line), f) == NULL)
        line[0] = '\0';
    (void)fclose(f);
    return read_grant(line);
}

unsigned processors_granted(const char *root, const char *path)
{
    char group[PATH_MAX];
    unsigned least = 0;
    (void)snprintf(group, sizeof(group), "%s", strcmp(path, "/") == 0 ? "" : path);
    for (;;) {
        unsigned granted = granted_by(root, group);
        if (granted > 0 && (least == 0 || granted < least))
            least = granted;
        char *parent = strrchr(group, '/');
        if (parent == NULL)
            return least;
        *parent = '\0';
    }
}

/* Writes the path of this process's control group (version 2) to @path. False: there is none. */
static bool find_group(char *path, size_t size)
{
    char line[PATH_MAX + 8];
    FILE *f = fopen("/proc/self/cgroup", "re");
    bool found = false;
    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL) {
        found = strncmp(line, "0::/", 4) == 0;
        line[strcspn(line, "\n")] = '\0';
    }
    if (f != NULL)
        (void)fclose(f);
    if (found)
        (void)snprintf(path, size, "%s", line + 3);
    return found;
}

unsigned processors_usable(void)
{
    cpu_set_t set;
    char path[PATH_MAX];
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned usable = online < 1 ? 1 : (unsigned)online;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        usable = (unsigned)CPU_COUNT(&set);
    unsigned granted = find_group(path, sizeof(path)) ? processors_granted("/sys/fs/cgroup", path) : 0;
    return granted > 0 && granted < usable ? granted : usable;
}
