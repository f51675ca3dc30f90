/* SPDX-License-Identifier: MIT */
/* Metrics of this coordinator, its process, and Redis nodes. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/job/memory.h"
#include "service/filters/filter_states.h"
#include "service/metrics/metrics_internal.h"
#include "shard/redis/nodes/health.h"

static uint64_t open_files(void)
{
    uint64_t count = 0;
    DIR *d = opendir("/proc/self/fd");
    if (d == NULL)
        return 0;
    while (readdir(d) != NULL) /* the stream is local, so this is thread-safe */
        count++;
    (void)closedir(d);
    return count < 3 ? 0 : count - 3; /* without "." and "..", and without d's own */
}

/* Read numbers of /proc/self/stat behind the name, which may contain anything: the first one is the third
 * field. */
static void memory_and_threads(struct samples *to)
{
    enum { THREADS = 20 - 3, VIRTUAL = 23 - 3, RESIDENT = 24 - 3, FIELDS = RESIDENT + 1 };
    char line[1024];
    uint64_t value[FIELDS] = {0};
    FILE *f = fopen("/proc/self/stat", "re");
    if (f == NULL)
        return;
    const char *got = fgets(line, sizeof(line), f);
    (void)fclose(f);
    char *at = got == NULL ? NULL : strrchr(line, ')'), *rest = NULL;
    if (at == NULL)
        return;
    at = strtok_r(at + 1, " ", &rest);
    for (size_t i = 0; i < FIELDS && at != NULL; i++, at = strtok_r(NULL, " ", &rest))
        value[i] = strtoull(at, NULL, 10);
    sample_count(to, METRIC_OF_RESIDENT, NULL, value[RESIDENT] * (uint64_t)sysconf(_SC_PAGESIZE));
    sample_count(to, METRIC_OF_VIRTUAL, NULL, value[VIRTUAL]);
    sample_count(to, METRIC_OF_THREADS, NULL, value[THREADS]);
}

static double seconds_of(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

void metrics_of_process(struct service *s, struct samples *to)
{
    struct filter_states_total total = filter_states_total(s->watch);
    const struct config *c = live_config_acquire(s->config);
    sample_count(to, METRIC_OF_BUILD, (struct label[]){label(s->version), label(s->owner)}, 1);
    sample_count(to, METRIC_OF_LEAVING, NULL, atomic_load(&s->leaving));
    sample_count(to, METRIC_OF_CLIENTS, NULL, atomic_load(&s->clients));
    sample_count(to, METRIC_OF_CLIENTS_MAX, NULL, c->max_clients);
    sample_count(to, METRIC_OF_CONNECTIONS, NULL, atomic_load(&s->connections));
    sample_count(to, METRIC_OF_HTTP_CONNECTIONS_TAKEN, NULL, atomic_load(&s->http_connections));
    sample_count(to, METRIC_OF_CONNECTIONS_REJECTED, NULL, atomic_load(&s->rejected));
    sample_count(to, METRIC_OF_JOBS, NULL, atomic_load(&s->jobs));
    sample_count(to, METRIC_OF_LOOP_FILTERS, NULL, total.filters);
    sample_count(to, METRIC_OF_LOOP_BEHIND, NULL, total.behind);
    config_release(c);
    for (int i = 0; i <= LOG_LEVEL_ERROR; i++) {
        const struct label level = label(log_level_name((enum log_level)i));
        sample_count(to, METRIC_OF_LOG_LINES, &level, log_lines((enum log_level)i));
    }
    sample_count(to, METRIC_OF_LOG_SUPPRESSED, NULL, log_suppressed());
    memory_and_threads(to);
    struct rusage used = {0};
    struct rlimit files = {0};
    (void)getrusage(RUSAGE_SELF, &used);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    sample(to, METRIC_OF_CPU, NULL, seconds_of(&used.ru_utime) + seconds_of(&used.ru_stime));
    sample_count(to, METRIC_OF_FDS, NULL, open_files());
    sample_count(to, METRIC_OF_FDS_MAX, NULL, files.rlim_cur);
    sample(to, METRIC_OF_STARTED, NULL, (double)(s->started_wall_us) / 1e6);
    sample(to, METRIC_OF_UPTIME, NULL, (double)(clock_mono_us() - s->started_us) / 1e6);
}

/* --- Redis nodes: the experience of this process's connections, and the memory that nodes report --- */

void metrics_of_memory(struct admin *a, struct samples *to, uint64_t deadline_us)
{
    unsigned count = 0;
    struct error e;
    if (clock_mono_us() >= deadline_us || sync_client_masters(a->redis, &count, &e) != ERR_OK)
        return;
    for (unsigned i = 0; i < count && clock_mono_us() < deadline_us && !atomic_load(&a->service->stop); i++) {
        struct plan_node told = {.known = false};
        const struct label node = label(sync_client_name(a->redis, sync_client_master(a->redis, i)));
        if (memory_of_node(a->redis, sync_client_master(a->redis, i), &told, &e) == ERR_OK) {
            sample_count(to, METRIC_OF_NODE_MEMORY, &node, told.used);
            sample_count(to, METRIC_OF_NODE_MEMORY_MAX, &node, told.maxmemory);
        }
    }
}

void metrics_of_nodes(struct service *s, struct samples *to)
{
    struct node_health_figures f;
    for (unsigned i = 0; node_health_read(&s->nodes, i, &f); i++) {
        const struct label node = label(f.name);
        sample_count(to, METRIC_OF_NODE_UP, &node, !node_health_is_down(&f));
        sample_count(to, METRIC_OF_NODE_CONNECTIONS, &node, f.connections);
        sample_count(to, METRIC_OF_NODE_RECONNECTS, &node, f.reconnects);
        sample_count(to, METRIC_OF_NODE_FAILURES, &node, f.failures);
        if (f.took.count > 0)
            sample_timing(to, METRIC_OF_NODE_SECONDS, &node, &f.took);
    }
    struct timing_figures pages = {0};
    timing_add(&s->page_timing, &pages);
    sample_timing(to, METRIC_OF_PAGE_SECONDS, NULL, &pages);
}
