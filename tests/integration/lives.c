/* SPDX-License-Identifier: MIT */
#include "tests/integration/lives.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/filter/block.h"

enum { SLEEPER_MS = 20000, CAPACITY = 3000, SHARD_BYTES = 2048, LANES = 2 };

static const char job_name[] = "twinbloom-job";

int life_start(struct life *w)
{
    struct error e = {""};
    char list[256] = "";
    memset(w, 0, sizeof(*w));
    if (servers_start(&w->servers, SERVERS_MAX) != 0)
        return -1;
    w->nodes = w->servers.nodes;
    if (w->servers.count == 0)
        return 0;
    if (proxy_start(&w->proxy, &e) != ERR_OK)
        return -1;
    for (unsigned i = 0; i < w->servers.count; i++) {
        unsigned route;
        uint16_t port;
        size_t at = strlen(list);
        if (proxy_add(w->proxy, WIRE_REDIS, w->servers.redis[i].port, &route, &port, &e) != ERR_OK)
            return -1;
        (void)snprintf(list + at, sizeof(list) - at, "%sredis://127.0.0.1:%u", i == 0 ? "" : ",", port);
    }
    return nodes_parse(&w->nodes, list, &e) == ERR_OK ? 0 : -1;
}

int life_stop(struct life *w)
{
    proxy_stop(w->proxy);
    return servers_stop(&w->servers);
}

void life_begin(struct life *w, const void *name, size_t length)
{
    struct error e = {""};
    servers_flush(&w->servers);
    if (w->proxy != NULL)
        proxy_lift(w->proxy);
    w->link = sync_client_new(&w->nodes, SYNC_CLIENT_MS, NULL);
    assert_non_null(w->link);
    must(names_init(&w->names, PREFIX, name, length, &e), e);
    must(placement_choose(&w->placement, &w->nodes, "", &e), e);
    w->options = (struct make_options){.capacity = CAPACITY,
                                       .error_rate = 0.01,
                                       .expansion = 2,
                                       .lanes = LANES,
                                       .placement = &w->placement,
                                       .shard_bytes = SHARD_BYTES};
}

void life_end(struct life *w)
{
    sync_client_free(w->link);
    w->link = NULL;
}

enum err life_make(struct life *w, struct sync_client *l, struct error *e)
{
    struct names own = w->names; /* this maker's own copy, as another maker may run at the same time */
    struct log_view *v = calloc(1, sizeof(*v));
    enum err code = log_make(l, &own, &w->options, v, NULL, e);
    free(v);
    return code;
}

enum err life_drop(struct life *w, struct sync_client *l, struct error *e)
{
    uint64_t incarnation = 0;
    struct log_view *v = calloc(1, sizeof(*v));
    enum err code = log_view_load(l, &w->names, v, e);
    if (code == ERR_OK)
        incarnation = v->incarnation;
    free(v);
    return code == ERR_OK || code == ERR_NOT_FOUND ? log_drop(l, &w->names, incarnation, 0, NULL, e) : code;
}

long long life_keys(struct life *w)
{
    struct client *c;
    long long n = 0;
    for (unsigned i = 0; (c = servers_each(&w->servers, i)) != NULL; i++) {
        int64_t one = 0;
        struct error e = {""};
        must(client_integer(c, &one, &e, "DBSIZE"), e);
        redisReply *said = client_command(c, "KEYS *}:deleted");
        assert_true(said != NULL && said->type == REDIS_REPLY_ARRAY);
        n += one - (long long)said->elements;
        freeReplyObject(said);
    }
    return n;
}

static void lane_is_whole(struct life *w, unsigned i)
{
    struct error e = {""};
    struct lane lane;
    redisReply *r = NULL;
    struct log_generation *g = &w->view.slot[w->view.current];
    char id[LOG_ID_TEXT_MAX];
    must(log_view_lane_at(&w->view, &w->names, &w->nodes, i, &lane, &e), e);
    must(sync_client_command(w->link, lane.where, &r, &e, "XRANGE %b - + COUNT 1", lane.key.text,
                             lane.key.length),
         e);
    assert_int_equal(r->elements, 1);
    (void)log_id_format(g->folded[i].position.id, id);
    assert_true(log_view_is_folded(&w->view, g, i));
    assert_string_equal(r->element[0]->element[0]->str, id);
    const redisReply *bytes = r->element[0]->element[1]->element[1];
    assert_true(log_position_is(&g->folded[i].position, g->folded[i].position.id, bytes->str, bytes->len));
    freeReplyObject(r);
}

static void shard_is_whole(struct life *w, const struct generation *g, unsigned layer, uint32_t shard)
{
    struct error e = {""};
    struct placement placement;
    struct key_name key;
    struct header found;
    redisReply *r = NULL;
    const struct geometry *shape = &g->layers[layer].geometry;
    uint16_t tag = hash_tag(w->names.incarnation, w->names.filter, w->names.filter_length, g->number);
    must(placement_resolve(&placement, &w->names, g, &w->nodes, &e), e);
    names_log_shard(&w->names, (struct shard_id){g->number, layer, shard}, &key);
    must(sync_client_command(w->link, placement_where(&placement, layer, shard), &r, &e, "GET %b", key.text,
                             key.length),
         e);
    assert_int_equal(r->type, REDIS_REPLY_STRING);
    assert_int_equal(r->len, header_shard_bytes(shape));
    const uint8_t *bytes = (const uint8_t *)r->str;
    must(header_decode(&found, bytes, r->len, "shard", &e), e);
    assert_true(found.tag == tag && found.generation == g->number && found.layer == layer &&
                found.shard == shard && found.blocks == shape->blocks &&
                found.writer.number >= g->layers[layer].token);
    for (uint32_t b = 1; b <= shape->blocks; b++) {
        const uint8_t *at = bytes + (size_t)b * (shape->block_bits / 8);
        assert_int_equal(at[0] << 8 | at[1], tag);
    }
    freeReplyObject(r);
}

void life_is_whole(struct life *w, long long others)
{
    struct error e = {""};
    long long keys = 1 + others;
    must(log_view_load(w->link, &w->names, &w->view, &e), e);
    w->names.incarnation = w->view.incarnation;
    assert_false(w->view.deleting);
    assert_false(w->view.degraded);
    for (unsigned i = 0; i < w->view.lane_count; i++, keys++)
        lane_is_whole(w, i);
    for (unsigned s = 0; s < 2; s++) {
        const struct generation *g = &w->view.slot[s].shape;
        for (unsigned layer = 0; g->number != 0 && layer < g->layer_count; layer++)
            for (uint32_t i = 0; i < g->layers[layer].geometry.shards; i++, keys++)
                shard_is_whole(w, g, layer, i);
    }
    assert_int_equal(life_keys(w), keys);
}

/* --- jobs that are stopped --- */

static void *sleep_there(void *arg)
{
    struct life_sleeper *s = arg;
    s->code = s->job(s->life, s->link, &s->e);
    s->ended = true;
    return NULL;
}

bool life_put_to_sleep(struct life_sleeper *s, struct life *w, life_job_fn *job, uint64_t n,
                       enum proxy_moment moment)
{
    *s = (struct life_sleeper){
        .life = w, .job = job, .link = sync_client_new(&w->nodes, SLEEPER_MS, job_name)};
    assert_non_null(s->link);
    proxy_count(w->proxy, "", n, moment);
    assert_int_equal(pthread_create(&s->thread, NULL, sleep_there, s), 0);
    while (!proxy_is_held(w->proxy) && !s->ended)
        clock_sleep_us(200);
    return proxy_is_held(w->proxy);
}

enum err life_wake(struct life_sleeper *s)
{
    proxy_release(s->life->proxy, true);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    sync_client_free(s->link);
    return s->code;
}

/* Resets end the job at once, as a timeout would only after its time. A connection it makes anew is withheld
 * and reset, too. */
bool life_kill(struct life *w, life_job_fn *job, uint64_t n, enum proxy_moment moment)
{
    struct life_sleeper s;
    bool held = life_put_to_sleep(&s, w, job, n, moment);
    while (!s.ended) {
        for (unsigned i = 0; i < w->servers.count; i++)
            (void)proxy_reset(w->proxy, i, NULL, true);
        clock_sleep_us(1000);
    }
    assert_int_equal(pthread_join(s.thread, NULL), 0);
    if (held && s.code != ERR_TIMEOUT && s.code != ERR_UNREACHABLE)
        fail_msg("held at %" PRIu64 ", and yet %s: %s", n, error_name(s.code), s.e.text);
    if (!held)
        must(s.code, s.e);
    proxy_release(w->proxy, false);
    sync_client_free(s.link);
    return held;
}
