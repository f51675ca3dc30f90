/* SPDX-License-Identifier: MIT */
/* INFO: a table of sections. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "base/clock.h"
#include "service/commands/command.h"
#include "service/resp/worker.h"
#include "shard/redis/nodes/health.h"

typedef void section_fn(struct buffer *out, struct service *s, const struct config *config);

static void server(struct buffer *out, struct service *s, const struct config *config)
{
    uint64_t uptime = (clock_mono_us() - s->started_us) / 1000000;
    const char *port = strrchr(config->listen, ':');
    struct utsname os = {0};
    (void)uname(&os);
    buffer_printf(out,
                  "redis_version:" COMMAND_REDIS_VERSION "\r\nredis_mode:standalone\r\nos:%s %s %s\r\n"
                  "arch_bits:%zu\r\nprocess_id:%d\r\ntcp_port:%s\r\nuptime_in_seconds:%" PRIu64
                  "\r\nuptime_in_days:%" PRIu64 "\r\nserver_time_usec:%" PRIu64 "\r\nconfig_file:%s\r\n",
                  os.sysname, os.release, os.machine, 8 * sizeof(void *), (int)getpid(),
                  port != NULL ? port + 1 : "0", uptime, uptime / 86400, clock_wall_us(), s->config_path);
}

static void clients(struct buffer *out, struct service *s, const struct config *config)
{
    buffer_printf(out, "connected_clients:%u\r\nmaxclients:%" PRIu64 "\r\nblocked_clients:0\r\n",
                  atomic_load(&s->clients), config->max_clients);
}

/* Resident memory of this process; 0 if the system does not tell. */
static uint64_t resident_bytes(void)
{
    char text[128] = "", *resident = NULL;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL)
        return 0;
    const char *line = fgets(text, sizeof(text), f);
    (void)fclose(f);
    (void)strtoull(text, &resident, 10); /* the second number is the resident size, in pages */
    return line == NULL ? 0 : strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The memory of this process. The filters lie in Redis; see TB.STATUS. */
static void memory(struct buffer *out, struct service *s, const struct config *config UNUSED)
{
    uint64_t bytes = resident_bytes();
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    buffer_printf(out,
                  "used_memory:%" PRIu64 "\r\nused_memory_human:%.2fM\r\nused_memory_rss:%" PRIu64
                  "\r\ntotal_system_memory:%" PRIu64 "\r\nmem_clients_normal:%zu\r\nmaxmemory:0\r\n"
                  "maxmemory_policy:noeviction\r\n",
                  bytes, (double)bytes / 1048576.0, bytes, machine, atomic_load(&s->client_memory));
}

static void stats(struct buffer *out, struct service *s, const struct config *config UNUSED)
{
    buffer_printf(out,
                  "total_connections_received:%" PRIuFAST64 "\r\ntotal_commands_processed:%" PRIuFAST64
                  "\r\nrejected_connections:%" PRIuFAST64 "\r\nexpired_keys:0\r\nevicted_keys:0\r\n",
                  atomic_load(&s->connections), atomic_load(&s->commands), atomic_load(&s->rejected));
}

static void cpu(struct buffer *out, struct service *s UNUSED, const struct config *config UNUSED)
{
    struct rusage u = {0};
    (void)getrusage(RUSAGE_SELF, &u);
    buffer_printf(out, "used_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n", (long)u.ru_stime.tv_sec,
                  (long)u.ru_stime.tv_usec, (long)u.ru_utime.tv_sec, (long)u.ru_utime.tv_usec);
}

/* The number of filters that the controller found last. */
static void keyspace(struct buffer *out, struct service *s, const struct config *config UNUSED)
{
    uint_fast64_t filters = atomic_load(&s->filters);
    if (filters > 0)
        buffer_printf(out, "db0:keys=%" PRIuFAST64 ",expires=0,avg_ttl=0\r\n", filters);
}

static void twinbloom(struct buffer *out, struct service *s, const struct config *config)
{
    buffer_printf(out,
                  "twinbloom_version:%s\r\ncoordinator:%s\r\nthreads:%u\r\nnodes:%u\r\n"
                  "configured_filters:%zu\r\nfilters:%" PRIuFAST64 "\r\njobs:%u\r\n",
                  s->version, s->owner, s->threads, nodes_count(&s->nodes), config->filter_count,
                  atomic_load(&s->filters), atomic_load(&s->jobs));
}

static const char *nodes_mode(const struct service *s)
{
    return s->nodes.cluster != NULL ? "cluster" : s->nodes.sentinels != NULL ? "sentinel" : "list";
}

/* For users who may not use all filters: without names and errors. */
static void nodes_in_short(struct buffer *out, struct service *s, const struct config *config UNUSED)
{
    struct node_health_figures f;
    bool up = true;
    for (unsigned i = 0; node_health_read(&s->nodes, i, &f); i++)
        up = up && !node_health_is_down(&f);
    buffer_printf(out, "nodes_mode:%s\r\nnodes_state:%s\r\n", nodes_mode(s), up ? "up" : "down");
}

/* Figures for all threads of this process together. The error comes last, as it may contain commas. */
static void nodes(struct buffer *out, struct service *s, const struct config *config UNUSED)
{
    struct node_health_figures f;
    buffer_printf(out, "nodes_mode:%s\r\n", nodes_mode(s));
    for (unsigned i = 0; node_health_read(&s->nodes, i, &f); i++) {
        buffer_printf(out, "node%u:name=%s,state=%s,connections=%u", i, f.name, node_health_state(&f),
                      f.connections);
        if (s->nodes.cluster != NULL)
            buffer_printf(out, ",slots=%u", f.slots);
        buffer_printf(
            out, ",reconnects=%" PRIu64 ",failures=%" PRIu64 ",last_error_ms=%" PRIu64 ",last_error=%s\r\n",
            f.reconnects, f.failures, f.error_ms, f.error);
    }
}

static const struct section {
    const char *name;
    section_fn *write; /* NULL: @text */
    const char *text;
} sections[] = {
    {"Server", .write = server},
    {"Clients", .write = clients},
    {"Memory", .write = memory},
    /* Nothing is stored here, so nothing is ever loading: "loading:1" would make clients wait. */
    {"Persistence", .text = "loading:0\r\nasync_loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:0\r\n"},
    {"Stats", .write = stats},
    {"Replication", .text = "role:master\r\nconnected_slaves:0\r\n"},
    {"CPU", .write = cpu},
    /* For clients and tools that look for the module before they offer BF.*: the commands are those of
     * version 2.6. */
    {"Modules",
     .text = "module:name=bf,ver=" COMMAND_BF_VERSION ",api=1,filters=0,usedby=[],using=[],options=[]\r\n"},
    {"Cluster", .text = "cluster_enabled:0\r\n"},
    {"Keyspace", .write = keyspace},
    {"Twinbloom", .write = twinbloom},
    {"Nodes", .write = nodes},
};

enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

void command_info(struct client *c, const struct argument *a, size_t count)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    struct service *s = c->worker->service;
    const struct config *config = live_config_acquire(s->config);
    for (size_t i = 0; i < SECTIONS; i++) {
        bool wanted = count == 1; /* every section, as none costs much */
        for (size_t k = 1; k < count && !wanted; k++)
            wanted = argument_is(&a[k], sections[i].name) || argument_is(&a[k], "everything") ||
                     argument_is(&a[k], "all") || argument_is(&a[k], "default");
        if (!wanted)
            continue;
        buffer_printf(&text, "%s# %s\r\n", text.length > 0 ? "\r\n" : "", sections[i].name);
        bool in_short = sections[i].write == nodes && !user_may_all_filters(c->session.rights);
        if (sections[i].write == NULL)
            buffer_puts(&text, sections[i].text);
        else
            (in_short ? nodes_in_short : sections[i].write)(&text, s, config);
    }
    config_release(config);
    struct reply r = client_reply_begin(c);
    if (buffer_failed(&text))
        reply_error(&r, "OOM out of memory");
    else
        reply_verbatim(&r, text.data, text.length);
    client_reply_end(c);
}
