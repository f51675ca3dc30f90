/* SPDX-License-Identifier: MIT */
/* TB.NODES: the nodes of Redis, as this process's connections see them, with version and memory.
 *
 * The happy path is: read what connections have noted, and ask the nodes that are up for the rest.
 * Possible failure modes are: a node is down, or asking all of them took too long (its version and memory are
 * null). */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/info.h"
#include "expansion/job/memory.h"
#include "service/admin/admin.h"
#include "service/doctor/doctor.h"
#include "service/protocol/field.h"
#include "shard/redis/nodes/health.h"

enum { BUDGET_MS = 500 };

/* Find the node by its name in the list or in the cluster; @masters: the result of sync_client_masters(). */
static bool find_master(struct admin *a, unsigned masters, const char *name, unsigned *where)
{
    for (unsigned i = 0; i < masters; i++) {
        *where = sync_client_master(a->redis, i);
        if (strcmp(sync_client_name(a->redis, *where), name) == 0)
            return true;
    }
    return false;
}

/* Add the server's kind and version; null if it does not report them. */
static void version_fields(struct fields *f, struct admin *a, bool known, unsigned where)
{
    struct error ignored;
    SCOPED(scope_reply) redisReply *info = NULL;
    size_t length = 0;
    char text[64];
    if (known && sync_client_command(a->redis, where, &info, &ignored, "INFO server") != ERR_OK)
        info = NULL;
    bool valkey = info != NULL && info_value(info->str, info->len, "valkey_version", &length) != NULL;
    const char *version =
        info == NULL ? NULL
                     : info_value(info->str, info->len, valkey ? "valkey_version" : "redis_version", &length);
    if (version == NULL) {
        field_null(f, "server");
        field_null(f, "version");
    } else {
        (void)snprintf(text, sizeof(text), "%.*s", (int)length, version);
        field_text(f, "server", valkey ? "valkey" : "redis");
        field_text(f, "version", text);
    }
}

/* @masters: how many may be asked; 0: do not ask. */
static void put_node(struct admin *a, struct reply *r, const struct node_health_figures *n, unsigned masters)
{
    struct fields f;
    struct plan_node memory = {.known = false};
    struct error ignored;
    unsigned where = 0;
    bool known = !node_health_is_down(n) && find_master(a, masters, n->name, &where) &&
                 memory_of_node(a->redis, where, &memory, &ignored) == ERR_OK;
    fields_begin(&f, r->protocol);
    field_text(&f, "node", n->name);
    field_text(&f, "state", node_health_state(n));
    version_fields(&f, a, known, where);
    field_number(&f, "connections", n->connections);
    field_number(&f, "reconnects", n->reconnects);
    field_number(&f, "failures", n->failures);
    if (n->slots > 0)
        field_number(&f, "slots", n->slots);
    if (known) {
        field_number(&f, "used_bytes", memory.used);
        field_number(&f, "maxmemory_bytes", memory.maxmemory);
    } else {
        field_null(&f, "used_bytes");
        field_null(&f, "maxmemory_bytes");
    }
    field_text(&f, "error", n->error);
    field_time(&f, "error_at", n->error_ms);
    fields_end(&f, r);
}

enum err admin_nodes(struct admin *a, struct admin_call *call UNUSED, struct reply *r, struct error *e UNUSED)
{
    const struct nodes *nodes = &a->service->nodes;
    uint64_t deadline_us = clock_mono_us() + (uint64_t)BUDGET_MS * 1000;
    struct fields entries;
    struct node_health_figures n;
    unsigned masters = 0;
    struct error ignored;
    fields_begin(&entries, r->protocol);
    if (sync_client_masters(a->redis, &masters, &ignored) != ERR_OK)
        masters = 0;
    for (; node_health_read(nodes, (unsigned)entries.count, &n); entries.count++)
        put_node(a, &entries.reply, &n, clock_mono_us() < deadline_us ? masters : 0);
    fields_end_list(&entries, r);
    return ERR_OK;
}

/* --- TB.DOCTOR: the doctor's findings, as a list of maps --- */

static void take_finding(void *arg, const struct doctor_finding *finding)
{
    struct fields *all = arg, f;
    fields_begin(&f, all->reply.protocol);
    field_text(&f, "probe", finding->probe);
    field_text(&f, "subject", finding->subject);
    field_text(&f, "state", doctor_state_name(finding->state));
    field_text(&f, "found", finding->found);
    field_text(&f, "remedy", finding->remedy);
    fields_end(&f, &all->reply);
    all->count++;
}

enum err admin_doctor(struct admin *a, struct admin_call *call UNUSED, struct reply *r,
                      struct error *e UNUSED)
{
    struct fields all;
    fields_begin(&all, r->protocol);
    const struct doctor_options o = {a->config, &a->service->nodes, a->service->version, take_finding, &all};
    doctor_run(&o);
    fields_end_list(&all, r);
    return ERR_OK;
}
