/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/number.h"
#include "measure.h"

void samples_add(struct samples *s, double value)
{
    if (s->count < ROUNDS_MAX)
        s->value[s->count++] = value;
}

static int compare(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

double samples_median(const struct samples *s)
{
    struct samples sorted = *s;
    if (sorted.count == 0)
        return 0;
    qsort(sorted.value, sorted.count, sizeof(sorted.value[0]), compare);
    unsigned middle = sorted.count / 2;
    return sorted.count % 2 == 1 ? sorted.value[middle]
                                 : (sorted.value[middle - 1] + sorted.value[middle]) / 2;
}

static bool info_number(const char *info, const char *field, double *out)
{
    const char *at = strstr(info, field);
    if (at == NULL)
        return false;
    at += strlen(field);
    return number_double(at, strcspn(at, "\r\n"), out);
}

enum err measure_redis_cpu(redisContext *redis, double *out, struct error *e)
{
    redisReply *r = redisCommand(redis, "INFO cpu");
    double user;
    double system;
    enum err err = ERR_OK;
    if (r == NULL || r->type != REDIS_REPLY_STRING || !info_number(r->str, "used_cpu_user:", &user) ||
        !info_number(r->str, "used_cpu_sys:", &system))
        err = error_set(e, ERR_PARSE, "INFO cpu: %s", r == NULL ? redis->errstr : "used_cpu_* is missing");
    else
        *out = user + system;
    freeReplyObject(r);
    return err;
}

/* Read a small file of /proc as text. False: the process is gone. */
static bool slurp(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    size_t n = fread(text, 1, size - 1, f);
    text[n] = '\0';
    (void)fclose(f);
    return n > 0;
}

double measure_process_cpu(pid_t pid)
{
    char text[1024];
    if (!slurp(pid, "stat", text, sizeof(text)))
        return 0;
    /* After the name in parentheses: state is field 3, utime 14, stime 15. */
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 14; field++) {
        at = strchr(at, ' ');
        at = at == NULL ? NULL : at + 1;
    }
    if (at == NULL)
        return 0;
    char *end;
    double ticks = (double)strtoull(at, &end, 10);
    ticks += (double)strtoull(end, NULL, 10);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

uint64_t measure_memory(pid_t pid, const char *field)
{
    char text[4096];
    if (!slurp(pid, "status", text, sizeof(text)))
        return 0;
    const char *at = strstr(text, field);
    if (at == NULL)
        return 0;
    return strtoull(at + strlen(field) + 1, NULL, 10) * 1024;
}

enum err measure_reset_peak(pid_t pid, struct error *e)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)pid);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, "5", 1) == 1;
    if (fd >= 0)
        (void)close(fd);
    return ok ? ERR_OK : error_set(e, ERR_IO, "%s: the peak of resident memory cannot be reset", path);
}
