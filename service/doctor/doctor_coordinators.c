/* SPDX-License-Identifier: MIT */
/* Checks that coordinators agree on nodes, versions and clocks. */
#include "service/doctor/doctor_internal.h"

#include <inttypes.h>
#include <string.h>
#include "base/buffer.h"
#include "shard/view/claim.h"
#include "shard/members/members.h"
#include "shard/filter/view.h"

enum { CLOCK_WARN_MS = 2000 };

/* --- nodes --- */

/* Check what other coordinators have written on this node. */
void doctor_nodes(struct doctor *d, const struct doctor_node *n)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    struct error e;
    bool lacks = false;
    if (d->o->nodes->cluster != NULL ||
        sync_client_command(d->redis, n->where, &r, &e, "GET %s:nodes", d->o->config->prefix) != ERR_OK)
        return; /* the probe of commands reports the reason */
    if (r->type != REDIS_REPLY_STRING)
        doctor_tell(d, DOCTOR_OK, n->name, "", "no coordinator has used it with this prefix");
    else if (claim_judge(d->o->nodes, r->str, &lacks, &e) != ERR_OK)
        doctor_tell_error(d, DOCTOR_PROBLEM, n->name, &e,
                          "make [redis] nodes the same for all coordinators, the first one above all; or "
                          "choose another prefix");
    else if (lacks)
        doctor_tell(d, DOCTOR_WARNING, n->name, "add the node here, unless it was taken out of all lists",
                    "other coordinators had more nodes: %.300s", r->str);
    else
        doctor_tell(d, DOCTOR_OK, n->name, "", "as other coordinators have it");
}

/* --- coordinators --- */

struct listing {
    struct doctor *d;
    struct buffer nodes; /* the nodes configured here, in the form of a record */
    unsigned count, told;
};

/* Join the lines. */
static const char *one_line(const char *list, char *out, size_t size)
{
    size_t n = 0;
    for (; *list != '\0' && n + 3 < size; list++) {
        out[n++] = *list == '\n' ? ',' : *list;
        if (*list == '\n')
            out[n++] = ' ';
    }
    out[n] = '\0';
    return out;
}

static void judge_entry(void *arg, const struct members_entry *entry)
{
    struct listing *l = arg;
    struct doctor *d = l->d;
    char theirs[512], ours[512];
    const char *version = members_value(entry, MEMBERS_VERSION),
               *postgres = members_value(entry, MEMBERS_POSTGRES);
    unsigned told = l->told++;
    l->count++;
    if (entry->gone) {
        doctor_tell(d, DOCTOR_WARNING, entry->id, "start it again; or wait an hour, then it is forgotten",
                    "it ended without saying so, %" PRIu64 " s ago", entry->age_ms / 1000);
        return;
    }
    if (strcmp(members_value(entry, MEMBERS_NODES), buffer_text(&l->nodes)) != 0)
        doctor_tell(
            d, DOCTOR_PROBLEM, entry->id, "give all coordinators the same [redis] nodes, and restart them",
            "its nodes are %s; here they are %s", one_line(members_value(entry, MEMBERS_NODES), theirs, 500),
            one_line(buffer_text(&l->nodes), ours, 500));
    else if (strcmp(version, d->o->version) != 0)
        doctor_tell(d, DOCTOR_WARNING, entry->id, "upgrade all coordinators to the same version",
                    "its version is %s; here it is %s", version, d->o->version);
    else if (members_figure(entry, MEMBERS_FORMAT) != VIEW_FORMAT)
        doctor_tell(d, DOCTOR_WARNING, entry->id, "upgrade all coordinators to the same version",
                    "it knows filters up to format %" PRIu64 "; here it is %d",
                    members_figure(entry, MEMBERS_FORMAT), VIEW_FORMAT);
    else if (strcmp(members_value(entry, MEMBERS_REDIS), "ok") != 0)
        doctor_tell(d, DOCTOR_WARNING, entry->id, "see whether its host reaches these nodes",
                    "it does not reach all of Redis: %.300s", members_value(entry, MEMBERS_REDIS));
    else if (strcmp(postgres, "ok") != 0 && strcmp(postgres, "none") != 0)
        doctor_tell(d, DOCTOR_WARNING, entry->id,
                    "see what the probe \"table\" says, and whether its host reaches the database",
                    "it cannot use Postgres: %.300s", postgres);
    else
        l->told = told; /* agreement: nothing to report */
}

void doctor_coordinators(struct doctor *d)
{
    struct listing l = {.d = d};
    struct error e;
    unsigned up = 0;
    for (unsigned i = 0; i < d->node_count; i++)
        up += d->node[i].info != NULL;
    if (up < d->node_count || up == 0)
        return; /* the missing one is reported, and it may hold the list of members */
    members_list_nodes(d->o->nodes, &l.nodes);
    if (members_read(d->redis, d->o->config->prefix, NULL, judge_entry, &l, &e) != ERR_OK)
        doctor_tell(d, DOCTOR_PROBLEM, "", "see what the probe \"commands\" says", "they are not known: %s",
                    e.text);
    else if (l.told == 0)
        doctor_tell(d, DOCTOR_OK, "", "", l.count == 0 ? "none runs" : "%u, which agree", l.count);
    buffer_fini(&l.nodes);
}

/* --- clocks --- */

static void tell_clock(struct doctor *d, const char *subject, int64_t ahead_ms)
{
    bool far = ahead_ms > CLOCK_WARN_MS || ahead_ms < -CLOCK_WARN_MS;
    doctor_tell(d, far ? DOCTOR_WARNING : DOCTOR_OK, subject,
                far ? "have NTP set the clocks of both machines" : "",
                "its clock is %" PRId64 " ms %s the one here", ahead_ms < 0 ? -ahead_ms : ahead_ms,
                ahead_ms < 0 ? "behind" : "ahead of");
}

void doctor_clocks(struct doctor *d)
{
    for (unsigned i = 0; i < d->node_count; i++)
        if (d->node[i].has_clock)
            tell_clock(d, d->node[i].name, d->node[i].clock_ms);
    if (d->has_postgres)
        tell_clock(d, "postgres", d->postgres_clock_ms);
}
