/* SPDX-License-Identifier: MIT */
/* The table of probes, and their shared functions. */
#include "service/doctor/doctor_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "service/core/service.h"

const struct doctor_probe doctor_probes[] = {
    {"redis", "whether each node answers, as a master, and its version", doctor_redis, doctor_versions},
    {"postgres", "whether the database answers, and its version", doctor_postgres, NULL},
    {"memory", "maxmemory and maxmemory-policy of each node: Redis must not delete shards", NULL,
     doctor_memory},
    {"persistence", "what a node still has after a restart, and whether its last save worked", NULL,
     doctor_persistence},
    {"replicas", "whether there are as many replicas as add_acks waits for", NULL, doctor_replicas},
    {"replication", "replication ids, by which Twinbloom notices lost adds, and the backlog", NULL,
     doctor_replication},
    {"commands", "whether the user may run each command that is needed, tried on a scratch key", NULL,
     doctor_commands},
    {"nodes", "whether other coordinators use the same nodes, and the same metadata node", NULL,
     doctor_nodes},
    {"coordinators", "whether the other coordinators run, have one version, and reach what they need",
     doctor_coordinators, NULL},
    {"certificates", "whether the certificates of this coordinator are valid, and for how long",
     doctor_certificates, NULL},
    {"clock", "the clocks of nodes and database, compared with this machine's", doctor_clocks, NULL},
    {"rights", "whether the role sees who holds open transactions", doctor_rights, NULL},
    {"transactions", "transactions that have been open for long: a rebuild waits for them",
     doctor_transactions, NULL},
    {"table", "each filter's tables: rights, columns, the index behind id_column, the condition",
     doctor_tables, NULL},
    {"spill", "whether a build can write to spill_dir what does not fit into build_memory", doctor_spill,
     NULL},
    {"follower", "what following each filter's tables needs: outbox, or logical replication",
     doctor_followers, NULL},
    {"standby", "whether read_dsn leads to a standby of the same tables", doctor_standby, NULL},
    {"slots", "replication slots of this installation, and how much log Postgres keeps for them",
     doctor_slots, NULL},
};
const size_t doctor_probe_count = sizeof(doctor_probes) / sizeof(doctor_probes[0]);

const char *doctor_state_name(enum doctor_state state)
{
    static const char *const names[DOCTOR_STATES] = {"ok", "warning", "problem"};
    return names[state];
}

/* --- findings --- */

void doctor_tell(struct doctor *d, enum doctor_state state, const char *subject, const char *remedy,
                 const char *format, ...)
{
    char found[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(found, sizeof(found), format, arguments);
    va_end(arguments);
    const struct doctor_finding f = {d->probe, subject, state, found, remedy};
    d->o->fn(d->o->arg, &f);
}

void doctor_tell_error(struct doctor *d, enum doctor_state state, const char *subject, const struct error *e,
                       const char *remedy)
{
    size_t length = strlen(e->text);
    const char *rest = strstr(e->text, "; ");
    if (remedy[0] == '\0' && rest != NULL) {
        length = (size_t)(rest - e->text);
        remedy = rest + 2;
    }
    doctor_tell(d, state, subject, remedy, "%.*s", (int)length, e->text);
}

/* --- requirements of the configuration --- */

void doctor_each_table(struct doctor *d, void (*fn)(struct doctor *d, const struct config_filter *f))
{
    const struct config *c = d->o->config;
    for (size_t i = 0; d->has_postgres && i < c->filter_count; i++)
        if (c->filter[i].table[0] != '\0')
            fn(d, &c->filter[i]);
}

unsigned doctor_add_acks(const struct doctor *d)
{
    const struct config *c = d->o->config;
    unsigned most = c->add_acks;
    for (size_t i = 0; i < c->filter_count; i++)
        most = c->filter[i].add_acks > most ? c->filter[i].add_acks : most;
    return most;
}

bool doctor_add_fsync(const struct doctor *d)
{
    const struct config *c = d->o->config;
    bool wanted = c->add_fsync;
    for (size_t i = 0; i < c->filter_count; i++)
        wanted |= c->filter[i].add_fsync;
    return wanted;
}

/* --- running the probes --- */

void doctor_run(const struct doctor_options *o)
{
    struct doctor d = {.o = o};
    d.redis = sync_client_new(o->nodes, (unsigned)o->config->redis_timeout_ms, "twinbloom-doctor");
    for (size_t i = 0; i < doctor_probe_count && d.redis != NULL; i++) {
        d.probe = doctor_probes[i].name;
        if (doctor_probes[i].fn != NULL)
            doctor_probes[i].fn(&d);
        for (unsigned n = 0; doctor_probes[i].node_fn != NULL && n < d.node_count; n++)
            if (d.node[n].info != NULL)
                doctor_probes[i].node_fn(&d, &d.node[n]);
    }
    if (d.redis == NULL) {
        d.probe = doctor_probes[0].name;
        doctor_tell(&d, DOCTOR_PROBLEM, "", "give this machine more memory", "out of memory");
    }
    for (unsigned i = 0; i < d.node_count; i++)
        freeReplyObject(d.node[i].info);
    free(d.node);
    sync_client_free(d.redis);
}

/* --- without a service --- */

struct alone {
    FILE *to;
    unsigned count[DOCTOR_STATES];
};

static void print(void *arg, const struct doctor_finding *f)
{
    struct alone *a = arg;
    a->count[f->state]++;
    (void)fprintf(a->to, "%-8s %-13s %s%s%s\n", doctor_state_name(f->state), f->probe, f->subject,
                  f->subject[0] == '\0' ? "" : ": ", f->found);
    if (f->remedy[0] != '\0')
        (void)fprintf(a->to, "%-22s -> %s\n", "", f->remedy);
}

int doctor_alone(const struct config *config, const char *version, FILE *to)
{
    struct alone a = {.to = to};
    struct error e = {.text = ""};
    struct service *s = &(struct service){0};
    s->redis_timeout_ms = (unsigned)config->redis_timeout_ms;
    if (service_reach_nodes(s, config, &e) == ERR_OK) {
        const struct doctor_options o = {config, &s->nodes, version, print, &a};
        doctor_run(&o);
    } else {
        const struct doctor_finding f = {doctor_probes[0].name, "", DOCTOR_PROBLEM, e.text, ""};
        print(&a, &f);
    }
    service_leave_nodes(s);
    (void)fprintf(to, "%u ok, %u warning%s, %u problem%s\n", a.count[DOCTOR_OK], a.count[DOCTOR_WARNING],
                  a.count[DOCTOR_WARNING] == 1 ? "" : "s", a.count[DOCTOR_PROBLEM],
                  a.count[DOCTOR_PROBLEM] == 1 ? "" : "s");
    return a.count[DOCTOR_PROBLEM] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
