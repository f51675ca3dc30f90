/* SPDX-License-Identifier: MIT */
/* Which masters a filter trusts: the field `trusted` of its view.
 *
 * The happy path is: the lineages are read, what they have is made whole (or is known to be), the field is
 * set and all coordinators hear of it. Possible failure modes are: the mutex is lost, the filter is deleted
 * or made anew (refused by the script), somebody else sets the field at the same time (refused where no mutex
 * is held: look again), a master fails over after it was read: it is then of a lineage that the field does
 * not have, as after any failover. */
#include "shard/fence_internal.h"

#include <string.h>
#include <strings.h>
#include "base/clock.h"
#include "shard/script.h"

struct matter {
    const struct nodes *nodes;
    const struct view *view;
};

static bool matters(const void *arg, const struct lineage *one)
{
    const struct matter *m = arg;
    return fence_matters(m->nodes, m->view, one);
}

enum err fence_lineages(struct fence *f, const struct view *v, struct lineages *out, struct error *e)
{
    return link_lineages(f->link, matters, &(struct matter){link_nodes(f->link), v}, out, e);
}

enum err fence_read_trusted(struct fence *f, const struct view *v, struct buffer *out, struct error *e)
{
    struct lineages s;
    lineages_init(&s);
    enum err code = fence_lineages(f, v, &s, e);
    if (code == ERR_OK)
        lineages_format(&s, out);
    if (code == ERR_OK && buffer_failed(out))
        code = error_set(e, ERR_NOMEM, "out of memory");
    lineages_fini(&s);
    return code;
}

uint64_t fence_trust_time(const struct fence *f)
{
    uint64_t now = clock_wall_us() / 1000;
    return now > f->latest.trusted_ms ? now : f->latest.trusted_ms + 1;
}

struct change {
    const char *mutex; /* "": none */
    const char *was;   /* without a mutex, what the field must be; "": it must be missing */
    bool keep_time;
    const char *entry; /* for the history; "": none */
    unsigned entries_max;
};

static enum err set(struct fence *f, const struct lineages *s, const struct change *change, struct error *e)
{
    struct script_call *c = &f->call;
    struct buffer text = {0};
    lineages_format(s, &text);
    script_begin(c, embedded_trust);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    fence_put_key(f, "history");
    script_text(c, change->mutex);
    fence_put_event(f);
    script_incarnation(c, f->names.incarnation);
    script_text(c, buffer_text(&text));
    bool failed = buffer_failed(&text);
    buffer_fini(&text);
    script_text(c, change->was);
    script_number(c, fence_trust_time(f));
    script_text(c, change->keep_time ? "1" : "0");
    script_text(c, change->entry);
    script_number(c, change->entries_max);
    long long answer;
    if (failed)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = script_run(c, f->link, fence_home(f), &answer, e);
    if (code != ERR_OK || answer == 1)
        return code;
    if (answer == -1)
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", change->mutex);
    if (answer == -3)
        return error_set(e, ERR_CONFLICT, "the list of trusted masters changed meanwhile");
    return error_set(e, ERR_FENCED, "the filter was deleted or created again");
}

/* Some shard lies there: shard i of a layer on nodes[i % node_count]. */
static bool has_shards(const struct generation *g, const char *node)
{
    uint32_t shards = 0;
    for (unsigned i = 0; g->number != 0 && i < g->layer_count; i++)
        shards = g->layers[i].geometry.shards > shards ? g->layers[i].geometry.shards : shards;
    for (unsigned i = 0; i < shards && i < g->node_count; i++)
        if (strcasecmp(g->nodes[i], node) == 0)
            return true;
    return false;
}

bool fence_matters(const struct nodes *nodes, const struct view *v, const struct lineage *one)
{
    if (nodes->cluster != NULL)
        return !one->idle;
    return strcmp(nodes->node[NODE_HOME].name, one->node) == 0 || has_shards(&v->slot[0], one->node) ||
           has_shards(&v->slot[1], one->node);
}

enum err fence_trust(struct fence *f, const struct lineages *s, const char *mutex, struct error *e)
{
    return set(f, s, &(struct change){.mutex = mutex, .was = "", .entry = ""}, e);
}

enum err fence_accept(struct fence *f, const struct lineages *s, const char *mutex, const char *entry,
                      unsigned entries_max, struct error *e)
{
    return set(f, s, &(struct change){.mutex = mutex, .was = "", .entry = entry, .entries_max = entries_max},
               e);
}

static enum err trust_instead(struct fence *f, struct view *v, const struct lineages *s, bool keep_time,
                              struct error *e)
{
    struct lineages was;
    struct buffer text = {0};
    lineages_init(&was);
    enum err code = trusted_lineages(&v->trusted, &was, e);
    if (code == ERR_OK && v->trusted.known)
        lineages_format(&was, &text);
    if (code == ERR_OK)
        code = set(
            f, s,
            &(struct change){.mutex = "", .was = buffer_text(&text), .keep_time = keep_time, .entry = ""}, e);
    if (code == ERR_OK) {
        v->trusted.known = true;
        v->trusted.count = s->count;
        for (unsigned i = 0; i < s->count; i++)
            v->trusted.id[i] = s->one[i].id;
    }
    buffer_fini(&text);
    lineages_fini(&was);
    return code;
}

enum err fence_trust_instead(struct fence *f, struct view *v, const struct lineages *s, struct error *e)
{
    return trust_instead(f, v, s, true, e);
}

enum err fence_trust_anew(struct fence *f, struct view *v, const struct lineages *s, struct error *e)
{
    return trust_instead(f, v, s, false, e);
}
