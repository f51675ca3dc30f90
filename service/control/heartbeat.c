/* SPDX-License-Identifier: MIT */
/* The happy path is: one heartbeat a second; at the end the record is deleted. Possible failure modes are:
 * the metadata node is away (the next heartbeat tries again; logged once); it lost the record (all epochs are
 * written again); another node is away or hangs (each heartbeat asks only one of these, so that it stays
 * short). In a cluster the nodes are its masters by the current map. */
#include "service/control/heartbeat.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/jobs/runner.h"
#include "service/filters/filter_states.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/members/members.h"
#include "shard/filter/view.h"

enum {
    BEAT_MS = 1000,
    NODE_MS = 500, /* for connecting to a node, and for its reply */
    BEHIND_SHOWN = 16,
    BEHIND_LOOKED_AT = 256,
    TIMES_BEHIND = 2,  /* after so many heartbeats its event loops load the view again */
    BEATS_AT_ONCE = 20 /* chunks of MEMBERS_CHANGES_MAX epochs per heartbeat */
};

struct node_state {
    unsigned where; /* in a cluster: one slot of the master */
    bool down, was_down;
    char why[128];
};

struct heartbeat {
    struct service *service;
    struct runner *runner;
    struct mailbox *mailbox;
    struct sync_client *redis;
    atomic_bool stop;
    bool silent;        /* the last heartbeat was not written */
    unsigned next_down; /* index of the next node to ask of those that are down */
    unsigned node_count;
    struct node_state *node;
    uint64_t map_version; /* version of the cluster's map that the nodes are from; 0: none */
    struct members_heartbeat heartbeat;
    pthread_t thread;
};

/* --- health of the nodes --- */

/* Take one slot of each master that has some: the client's map leads it to the master. */
static void take_masters(struct heartbeat *p, const struct slot_map *map)
{
    struct node_state *node = calloc(map->count + 1, sizeof(*node));
    bool *seen = calloc(map->count + 1, sizeof(*seen));
    unsigned count = 0;
    for (unsigned slot = 0; slot < SLOTS && node != NULL && seen != NULL; slot++) {
        unsigned owner = map->owner[slot];
        if (owner >= map->count || seen[owner])
            continue;
        seen[owner] = true;
        node[count++].where = WHERE_SLOT | slot;
    }
    free(seen);
    if (node == NULL)
        return;
    free(p->node);
    p->node = node;
    p->node_count = count;
    p->next_down = 0;
}

/* Take the masters from the map, which the first user of the client loads: before that there are none. */
static void find_masters(struct heartbeat *p)
{
    struct cluster *cluster = p->service->nodes.cluster;
    if (cluster == NULL || cluster_version(cluster) == p->map_version)
        return;
    SCOPED(slot_map_fini) struct slot_map map;
    slot_map_init(&map);
    if (cluster_copy(cluster, &map, &p->map_version) == ERR_OK)
        take_masters(p, &map);
}

static void look_at_node(struct heartbeat *p, unsigned i)
{
    struct error e = {.text = ""};
    struct node_state *n = &p->node[i];
    n->down = sync_client_command(p->redis, n->where, NULL, &e, "PING") != ERR_OK;
    (void)snprintf(n->why, sizeof(n->why), "%.*s", (int)sizeof(n->why) - 1, n->down ? e.text : "");
}

/* In a list the first node has the list of members; in a cluster no node is special. */
static bool is_home(const struct heartbeat *p, unsigned i)
{
    return p->service->nodes.cluster == NULL && i == NODE_HOME;
}

/* Look at the metadata node, all nodes that replied the last time, and one of the others. */
static void look_at_nodes(struct heartbeat *p)
{
    find_masters(p);
    for (unsigned i = 0; i < p->node_count; i++)
        p->node[i].was_down = p->node[i].down && !is_home(p, i);
    for (unsigned i = 0; i < p->node_count && !atomic_load(&p->stop); i++)
        if (!p->node[i].was_down)
            look_at_node(p, i);
    for (unsigned i = 0; i < p->node_count; i++) {
        unsigned n = (p->next_down + i) % p->node_count;
        if (!p->node[n].was_down)
            continue;
        look_at_node(p, n);
        p->next_down = n + 1;
        break;
    }
}

/* --- the fields --- */

static void add_redis(struct heartbeat *p)
{
    char text[512] = "";
    size_t n = 0;
    for (unsigned i = 0; i < p->node_count && n + 1 < sizeof(text); i++)
        if (p->node[i].down)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n > 0 ? "; " : "", p->node[i].why);
    members_text(&p->heartbeat, MEMBERS_REDIS, text[0] == '\0' ? "ok" : text);
}

/* Postgres' state as the controller last found it. */
static void add_postgres(struct heartbeat *p, const struct config *c)
{
    const char *text = "none";
    struct filter_note note;
    for (size_t i = 0; i < c->filter_count; i++) {
        if (c->filter[i].table[0] == '\0')
            continue;
        text = "ok";
        note = filter_states_note(p->service->watch, c->filter[i].name, strlen(c->filter[i].name));
        if (note.postgres[0] != '\0') {
            text = note.postgres;
            break;
        }
    }
    members_text(&p->heartbeat, MEMBERS_POSTGRES, text);
}

static void add_nodes(struct heartbeat *p)
{
    SCOPED(buffer_fini) struct buffer list = {0};
    members_list_nodes(&p->service->nodes, &list);
    members_text(&p->heartbeat, MEMBERS_NODES, buffer_text(&list));
}

static void add_listen(struct heartbeat *p, const struct config *c)
{
    const char *const addresses[] = {c->listen, c->listen_tls, c->unix_socket};
    char text[512] = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]) && n + 1 < sizeof(text); i++)
        if (addresses[i][0] != '\0')
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n > 0 ? ", " : "", addresses[i]);
    members_text(&p->heartbeat, MEMBERS_LISTEN, text);
    members_text(&p->heartbeat, MEMBERS_HTTP, c->http);
}

static void add_job(void *arg, const char *filter, size_t length)
{
    struct buffer *list = arg;
    struct names names;
    if (names_init(&names, "p", filter, length, NULL) == ERR_OK)
        buffer_printf(list, "%s%s", list->length > 0 ? "\n" : "", names.filter);
}

/* --- filters that are behind --- */

struct behind {
    struct heartbeat *heartbeat;
    struct buffer list;
    size_t shown;
};

static void note_behind(void *arg, const char *filter, uint64_t epoch, unsigned times)
{
    struct behind *b = arg;
    if (b->shown < BEHIND_SHOWN) {
        buffer_printf(&b->list, "%s%s", b->shown > 0 ? "\n" : "", filter);
        b->shown++;
    }
    if (times < TIMES_BEHIND)
        return;
    if (times == TIMES_BEHIND)
        log_info("view_outdated", "filter=%s epoch=%" PRIu64 " note=\"its view is loaded again\"",
                 log_quote(filter), epoch);
    struct service *s = b->heartbeat->service;
    if (!atomic_load(&s->leaving))
        service_look_again(s, filter, strlen(filter));
}

static void add_epochs(struct heartbeat *p)
{
    struct filter_states_total total = filter_states_total(p->service->watch);
    struct behind b = {.heartbeat = p};
    filter_states_behind(p->service->watch, BEHIND_LOOKED_AT, note_behind, &b);
    members_number(&p->heartbeat, MEMBERS_SERVES, total.filters);
    members_number(&p->heartbeat, MEMBERS_BEHIND, total.behind);
    members_text(&p->heartbeat, MEMBERS_BEHIND_FILTERS, buffer_text(&b.list));
    buffer_fini(&b.list);
}

/* --- a heartbeat --- */

static void add_fields(struct heartbeat *p)
{
    struct service *s = p->service;
    const struct config *c = live_config_acquire(s->config);
    members_text(&p->heartbeat, MEMBERS_HOST, s->host);
    members_number(&p->heartbeat, MEMBERS_PID, (uint64_t)getpid());
    members_text(&p->heartbeat, MEMBERS_VERSION, s->version);
    members_number(&p->heartbeat, MEMBERS_FORMAT, VIEW_FORMAT);
    members_text(&p->heartbeat, MEMBERS_STATE, atomic_load(&s->leaving) ? "shutting_down" : "serving");
    members_number(&p->heartbeat, MEMBERS_UPTIME, (clock_mono_us() - s->started_us) / 1000);
    members_number(&p->heartbeat, MEMBERS_CLIENTS, atomic_load(&s->clients));
    add_listen(p, c);
    add_nodes(p);
    add_redis(p);
    add_postgres(p, c);
    SCOPED(buffer_fini) struct buffer jobs = {0};
    runner_each(p->runner, add_job, &jobs);
    members_text(&p->heartbeat, MEMBERS_JOBS, buffer_text(&jobs));
    add_epochs(p);
    config_release(c);
}

static void add_epoch(void *arg, const char *filter, uint64_t incarnation, uint64_t epoch)
{
    members_epoch(arg, filter, incarnation, epoch);
}

/* Epochs that were taken but did not arrive, or were lost since, are taken again. */
static enum err write_heartbeat(struct heartbeat *p, struct error *e)
{
    struct service *s = p->service;
    bool more = true;
    enum err code = ERR_OK;
    for (unsigned i = 0; i < BEATS_AT_ONCE && more && code == ERR_OK; i++) {
        bool whole;
        members_begin(&p->heartbeat, s->prefix, s->owner);
        if (i == 0)
            add_fields(p);
        size_t taken = filter_states_changes(s->watch, MEMBERS_CHANGES_MAX, add_epoch, &p->heartbeat);
        code = members_write(&p->heartbeat, p->redis, &whole, e);
        if (!whole)
            filter_states_report_again(s->watch);
        more = !whole || taken == MEMBERS_CHANGES_MAX;
    }
    return code;
}

static void heartbeat(struct heartbeat *p)
{
    struct error e = {.text = ""};
    look_at_nodes(p);
    bool down = p->node_count > 0 && is_home(p, 0) && p->node[0].down;
    enum err code = down ? ERR_UNREACHABLE : write_heartbeat(p, &e);
    if (code != ERR_OK && !p->silent)
        log_warn("heartbeat_failed", "code=%s error=%s note=\"other coordinators count this one as gone\"",
                 error_name(code), log_quote(down ? p->node[0].why : e.text));
    if (code != ERR_OK)
        sync_client_forget(p->redis);
    p->silent = code != ERR_OK;
}

/* --- the thread --- */

static void *run(void *arg)
{
    struct heartbeat *p = arg;
    struct error e;
    while (!atomic_load(&p->stop)) {
        heartbeat(p);
        log_tick();
        mailbox_wait(p->mailbox, BEAT_MS);
    }
    enum err code = p->silent ? ERR_OK : members_leave(p->redis, p->service->prefix, p->service->owner, &e);
    if (code != ERR_OK)
        log_warn("member_not_removed", "code=%s error=%s note=\"it stays listed as gone for an hour\"",
                 error_name(code), log_quote(e.text));
    return NULL;
}

static void destroy(struct heartbeat *p)
{
    members_fini(&p->heartbeat);
    sync_client_free(p->redis);
    mailbox_free(p->mailbox);
    free(p->node);
    free(p);
}

enum err heartbeat_start(struct heartbeat **out, struct service *s, struct runner *runner, struct error *e)
{
    struct heartbeat *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    p->service = s;
    p->runner = runner;
    p->mailbox = mailbox_new();
    p->redis = sync_client_new(&s->nodes, s->redis_timeout_ms < NODE_MS ? s->redis_timeout_ms : NODE_MS,
                               "twinbloom-heartbeat");
    p->node = calloc(s->nodes.count + 1, sizeof(*p->node));
    for (; p->node != NULL && p->node_count < s->nodes.count; p->node_count++)
        p->node[p->node_count].where = p->node_count;
    if (p->mailbox == NULL || p->redis == NULL || p->node == NULL ||
        pthread_create(&p->thread, NULL, run, p) != 0) {
        destroy(p);
        return error_set(e, ERR_NOMEM, "the heartbeat thread could not be started");
    }
    *out = p;
    return ERR_OK;
}

void heartbeat_wake(struct heartbeat *p)
{
    if (p != NULL)
        mailbox_wake(p->mailbox);
}

void heartbeat_stop(struct heartbeat *p)
{
    if (p == NULL)
        return;
    atomic_store(&p->stop, true);
    heartbeat_wake(p);
    (void)pthread_join(p->thread, NULL);
    destroy(p);
}
