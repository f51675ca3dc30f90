/* SPDX-License-Identifier: MIT */
/* Metrics of Redis nodes: the experience of this process's connections, and the memory that nodes report. */
#include "base/clock.h"
#include "expansion/job/memory.h"
#include "service/metrics/metrics_internal.h"
#include "shard/redis/nodes/health.h"

void metrics_of_memory(struct admin *a, struct collection *to)
{
    unsigned count = 0;
    struct error e;
    if (clock_mono_us() >= to->deadline_us || sync_client_masters(a->redis, &count, &e) != ERR_OK)
        return;
    for (unsigned i = 0; i < count && clock_mono_us() < to->deadline_us && !atomic_load(to->stop); i++) {
        struct plan_node told = {.known = false};
        const struct label node = label(sync_client_name(a->redis, sync_client_master(a->redis, i)));
        if (memory_of_node(a->redis, sync_client_master(a->redis, i), &told, &e) == ERR_OK) {
            sample_count(to->samples, METRIC_OF_NODE_MEMORY, &node, told.used);
            sample_count(to->samples, METRIC_OF_NODE_MEMORY_MAX, &node, told.maxmemory);
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
