/* SPDX-License-Identifier: MIT */
#include "shard/generations/make.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "shard/log/lane_sync.h"
#include "shard/view/registry.h"
#include "shard/redis/script_call.h"
#include "shard/generations/grow.h"
#include "shard/generations/leftover.h"

extern const char embedded_make_begin[], embedded_make_publish[];

enum {
    TRIES = 3,         /* attempts to make all of it, while replication ids change */
    PUBLISH_TRIES = 3, /* attempts to publish, while replies are lost */
    RECORDS_MAX = 3    /* records of others to remove before our own is written */
};

struct maker {
    struct sync_client *redis;
    struct names *names;
    const struct make_options *options;
    const struct work *work;
    struct log_view *view;
    struct log_position anchor[LOG_LANES_MAX];
    bool is_published_perhaps; /* a reply to the publication was lost, so nothing may be removed */
    struct script_call call;
    bool was_left; /* a record of an earlier maker or deleter was removed */
};

static bool is_broken(enum err code)
{
    return code == ERR_UNREACHABLE || code == ERR_TIMEOUT;
}

static void put_field(void *arg, const char *name, const char *value)
{
    struct maker *m = arg;
    script_field(&m->call, name, value);
}

static enum err run(struct maker *m, long long *answer, struct error *e)
{
    enum err code = script_run(&m->call, m->redis, sync_client_home(m->redis, m->names), answer, e);
    if (code == ERR_REFUSED && e != NULL && strstr(e->text, "OOM command not allowed") != NULL)
        code = ERR_NOMEM;
    return code;
}

/* --- what is made --- */

enum err make_first_layer(const struct make_options *o, struct layer *first, struct error *e)
{
    *first = (struct layer){.capacity = o->capacity,
                            .error_rate = o->sourced || o->expansion == 0 ? o->error_rate
                                                                          : grow_first_rate(o->error_rate)};
    return geometry_plan(&first->geometry, o->capacity, first->error_rate, o->shard_bytes, e);
}

static enum err plan_generation(struct maker *m, struct generation *g, struct error *e)
{
    const struct make_options *o = m->options;
    if (o->content != NULL) {
        *g = *o->content->shape;
        return ERR_OK;
    }
    *g = (struct generation){.number = 1,
                             .seed = random_u64(),
                             .built = !o->sourced,
                             .capacity = o->capacity,
                             .error_rate = o->error_rate,
                             .layer_count = 1};
    placement_pin(o->placement, sync_client_nodes(m->redis), g);
    return make_first_layer(o, &g->layers[0], e);
}

/* Plan the view, except for what is only known once lanes and shards are there. */
static enum err plan(struct maker *m, struct error *e)
{
    const struct make_options *o = m->options;
    const struct nodes *nodes = sync_client_nodes(m->redis);
    struct log_view *v = m->view;
    if (o->lanes == 0 || o->lanes > LOG_LANES_MAX)
        return error_set(e, ERR_RANGE, "%u lanes: not 1 to %d", o->lanes, LOG_LANES_MAX);
    if (o->content == NULL && !(o->error_rate > 0 && o->error_rate < 1))
        return error_set(e, ERR_RANGE, "error rate %g: not between 0 and 1", o->error_rate);
    memset(v, 0, sizeof(*v));
    enum err code = registry_draw(m->redis, m->names, o->later_than, &v->incarnation, e);
    if (code != ERR_OK)
        return code;
    m->names->incarnation = v->incarnation;
    v->version = 1;
    v->seed = o->content != NULL ? o->content->seed : random_u64();
    v->last_generation = 1;
    v->expansion = o->expansion;
    v->shard_bytes = o->shard_bytes;
    v->sourced = o->sourced;
    v->current = 1;
    for (v->lane_count = 0; v->lane_count < o->lanes; v->lane_count++)
        v->lane[v->lane_count].number = 1;
    for (unsigned i = 0; i < o->lanes && i < o->placement->count; i++)
        (void)snprintf(v->lane_node[v->lane_node_count++], NODE_NAME_MAX, "%s",
                       placement_name(o->placement, nodes, i));
    return plan_generation(m, &v->slot[1].shape, e);
}

/* --- the record --- */

static enum err foreign(struct maker *m, const char *what, struct error *e)
{
    struct key_name key;
    names_filter_key(m->names, what, &key);
    return error_set(e, ERR_WRONG_TYPE, "%s is not a hash: delete or rename the foreign key", key.text);
}

/* *@written: our record is written; else another one was there, which is removed by now. */
static enum err write_record(struct maker *m, bool *written, struct error *e)
{
    long long answer = 0;
    uint64_t incarnation;
    bool was = false;
    script_begin_view(&m->call, embedded_make_begin, m->names);
    script_filter_key(&m->call, m->names, "leftover");
    log_view_format(m->view, put_field, m);
    enum err code = run(m, &answer, e);
    *written = code == ERR_OK && answer == 1;
    if (code != ERR_OK || *written)
        return code;
    if (answer == 0)
        return error_set(e, ERR_EXISTS, "filter %s exists", m->names->filter);
    if (answer < -1)
        return foreign(m, answer == -2 ? "view" : "leftover", e);
    code = leftover_stop(m->redis, m->names, &incarnation, e);
    if (code == ERR_OK && incarnation != 0 && m->options->leave != NULL)
        code = m->options->leave(m->options->arg, incarnation, e);
    if (code == ERR_OK)
        code = leftover_clear(m->redis, m->names, 0, &was, m->work, e);
    m->was_left |= was;
    return code;
}

static enum err begin(struct maker *m, struct error *e)
{
    bool written = false;
    enum err code = ERR_OK;
    for (unsigned i = 0; i <= RECORDS_MAX && code == ERR_OK && !written; i++)
        code = write_record(m, &written, e);
    if (code == ERR_OK && !written)
        code = error_set(e, ERR_CONFLICT, "other processes make or delete filter %s all the time",
                         m->names->filter);
    return code;
}

/* --- lanes --- */

static enum err make_lanes(struct maker *m, struct error *e)
{
    uint8_t writer[LOG_WRITER_BYTES];
    struct log_view *v = m->view;
    enum err code = ERR_OK;
    random_id(writer);
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++) {
        struct lane lane;
        code = log_view_lane_at(v, m->names, sync_client_nodes(m->redis), i, &lane, e);
        if (code == ERR_OK)
            code = lane_make(m->redis, &lane, writer, i, &m->anchor[i], e);
        v->lane[i].era = lane.era;
    }
    return code;
}

/* *@there: each lane begins with its anchor, under the era in which it was made. */
static enum err look_at_lanes(struct maker *m, bool *there, struct error *e)
{
    struct log_view *v = m->view;
    enum err code = ERR_OK;
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK && *there; i++) {
        struct lane lane;
        struct log_position at = m->anchor[i];
        enum tail_state state = TAIL_LOST;
        code = log_view_lane_at(v, m->names, sync_client_nodes(m->redis), i, &lane, e);
        if (code == ERR_OK)
            code = lane_read(m->redis, &lane, &at, NULL, NULL, &state, e);
        *there = state == TAIL_COMPLETE;
    }
    return code;
}

/* --- shards --- */

/* *@lasting: the nodes still have the replication ids that they had before all of it was made. */
static enum err make_all(struct maker *m, bool *lasting, struct error *e)
{
    struct log_view *v = m->view;
    const struct generation *g = &v->slot[1].shape;
    const struct make_content *content = m->options->content;
    struct trusted after;
    uint64_t later;
    enum err code = shards_eras(m->redis, m->names, g, &v->eras, e);
    if (code == ERR_OK)
        code = make_lanes(m, e);
    for (unsigned layer = 0; layer < g->layer_count && code == ERR_OK; layer++)
        code = shards_make(m->redis, m->names, g, layer, v->slot[1].writer, &later, m->work, e);
    if (code == ERR_OK && content != NULL)
        code = content->fill(content->arg, m->names, g, m->work, e);
    if (code == ERR_OK)
        code = shards_eras(m->redis, m->names, g, &after, e);
    *lasting = code == ERR_OK && shards_eras_equal(&v->eras, &after);
    return code == ERR_OK ? look_at_lanes(m, lasting, e) : code;
}

/* --- the view --- */

static void put_folded(struct maker *m)
{
    char name[LOG_FOLDED_NAME_MAX];
    for (unsigned i = 0; i < m->view->lane_count; i++) {
        struct log_folded *f = &m->view->slot[1].folded[i];
        f->lane_number = m->view->lane[i].number;
        f->position = m->anchor[i];
        f->layers = m->options->content == NULL ? 0 : m->view->slot[1].shape.layer_count;
        log_folded_name(1, i, name);
        script_text(&m->call, name);
        struct buffer *text = script_argument(&m->call);
        buffer_printf(text, "%" PRIu64 " ", f->lane_number);
        log_position_format(&f->position, text);
        buffer_printf(text, " %u", f->layers);
    }
}

/* "keys<slot>=<generation> <n>" */
static void put_keys(struct maker *m, uint64_t keys)
{
    m->view->slot[1].keys_of = 1;
    m->view->slot[1].keys = keys;
    script_text(&m->call, "keys1");
    buffer_printf(script_argument(&m->call), "1 %" PRIu64, keys);
}

static void put_publication(struct maker *m)
{
    const struct make_content *content = m->options->content;
    script_begin_view(&m->call, embedded_make_publish, m->names);
    script_filter_key(&m->call, m->names, "leftover");
    if (content != NULL)
        script_filter_key(&m->call, m->names, "load");
    script_incarnation(&m->call, m->names->incarnation);
    if (content != NULL) {
        script_incarnation(&m->call, content->loading);
        script_incarnation(&m->call, content->dump); /* the id has the same form */
        script_number(&m->call, content->done_ms);
        put_keys(m, content->keys);
    }
    log_view_format(m->view, put_field, m);
    put_folded(m);
}

static enum err publish(struct maker *m, struct error *e)
{
    enum err code = ERR_UNREACHABLE;
    for (unsigned i = 0; i < PUBLISH_TRIES && is_broken(code); i++) {
        long long answer = 0;
        put_publication(m);
        code = run(m, &answer, e);
        m->is_published_perhaps = code != ERR_OK && (m->is_published_perhaps || is_broken(code));
        if (code == ERR_OK && answer == -1)
            code = error_set(e, ERR_FENCED, "another dump is being loaded");
        else if (code == ERR_OK && answer != 1)
            code = error_set(e, ERR_CONFLICT, "another process has made, makes, or deletes filter %s",
                             m->names->filter);
    }
    return code;
}

/* *@again: replication ids changed meanwhile. */
static enum err make_once(struct maker *m, bool *again, struct error *e)
{
    struct error ignored;
    bool lasting = true;
    *again = false;
    enum err code = plan(m, e);
    if (code == ERR_OK)
        code = begin(m, e);
    if (code != ERR_OK)
        return code; /* nothing was made yet */
    bool clean = false;
    if (m->options->enter != NULL)
        code = m->options->enter(m->options->arg, m->was_left, &clean, e);
    if (code == ERR_OK && !clean)
        code = leftover_sweep(m->redis, m->names, m->work, e);
    if (code == ERR_OK)
        code = make_all(m, &lasting, e);
    *again = code == ERR_OK && !lasting;
    if (code == ERR_OK && lasting)
        code = publish(m, e);
    if ((code != ERR_OK || *again) && !is_broken(code) && !m->is_published_perhaps &&
        leftover_remove(m->redis, m->names, m->view, NULL, &ignored) != ERR_OK)
        *again = false; /* the record stays for the next maker */
    return code;
}

enum err log_make(struct sync_client *l, struct names *names, const struct make_options *o,
                  struct log_view *out, const struct work *w, struct error *e)
{
    bool again = true;
    enum err code = ERR_OK;
    struct maker *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(e, ERR_NOMEM, "no memory to make a filter");
    *m = (struct maker){.redis = l, .names = names, .options = o, .work = w, .view = out};
    for (unsigned i = 0; i < TRIES && code == ERR_OK && again; i++)
        code = make_once(m, &again, e);
    if (code == ERR_OK && again)
        code = error_set(e, ERR_UNREACHABLE, "the nodes' replication ids changed while shards were made");
    script_fini(&m->call);
    free(m);
    return code;
}
