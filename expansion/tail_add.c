/* SPDX-License-Identifier: MIT */
/* Keys that the tail read, to every generation that the filter's phase writes. The happy path is: all keys
 * are added under the view as it was loaded last. Possible failure modes are: a tag is missing, because the
 * view changed; then it is loaded, its fence completed, and all keys are added again, so that all are added
 * under one view. Or because a shard is lost: keys that would go there are left out, as its rebuild reads the
 * rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "expansion/tail_internal.h"
#include "shard/request/key_client.h"

enum { BATCH = 1000, VIEWS_MAX = 10 };

/* --- keys --- */

static void tail_keys_put(struct tail_keys *k, const char *key, size_t length)
{
    if (k->count == k->room) {
        size_t room = k->room == 0 ? BATCH : 2 * k->room;
        size_t *more = reallocarray(k->lengths, room, sizeof(*more));
        if (more == NULL) {
            k->failed = true;
            return;
        }
        k->lengths = more;
        k->room = room;
    }
    buffer_append(&k->bytes, key, length);
    k->lengths[k->count++] = length;
}

void tail_take_row(void *arg, const char *key, size_t length)
{
    if (key != NULL && length > 0)
        tail_keys_put(arg, key, length);
}

void tail_keys_clear(struct tail_keys *k)
{
    buffer_clear(&k->bytes);
    k->count = 0;
    k->failed = false;
}

void tail_keys_fini(struct tail_keys *k)
{
    buffer_fini(&k->bytes);
    free(k->lengths);
    *k = (struct tail_keys){.count = 0};
}

/* --- adding --- */

struct batch {
    size_t count;
    const char *keys[BATCH];
    size_t lengths[BATCH];
    uint8_t found[BATCH];
    bool partly; /* keys of lost shards are left out */
};

static bool is_written(const struct view *v, unsigned slot)
{
    return v->slot[slot].number != 0 && (slot == v->current || phase_row(v->phase)->writes_alternate);
}

/* Add @n keys of the batch, from @from on. What was new is due to be counted even where others failed: when
 * all are added again it is new no more. */
static enum err add_some(struct follower *t, struct batch *b, unsigned slot, size_t from, size_t n,
                         struct error *e)
{
    const struct generation *g = &t->view.slot[slot];
    uint64_t fresh = 0;
    memset(b->found + from, 1, n);
    enum err code =
        fence_add(&t->fence, &t->view, g, n, b->keys + from, b->lengths + from, b->found + from, e);
    for (size_t i = from; i < from + n; i++)
        fresh += b->found[i] == 0;
    fresh -= code != ERR_OK && fresh > 0; /* the key that failed */
    struct tail_due *due = &t->due[slot];
    if (due->generation != g->number)
        *due = (struct tail_due){.generation = g->number};
    due->count += fresh;
    t->added += slot == t->view.current ? fresh : 0;
    return code;
}

/* Key by key: those whose shard is there. */
static enum err add_partly(struct follower *t, struct batch *b, unsigned slot, struct error *e)
{
    for (size_t i = 0; i < b->count; i++) {
        enum err code = add_some(t, b, slot, i, 1, e);
        if (code == ERR_LOST)
            t->lost++;
        else if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

/* A log takes them as those of any caller: whatever is built meanwhile follows it. */
static enum err add_to_log(struct follower *t, struct batch *b, struct error *e)
{
    const struct tail_options *o = t->o;
    if (t->client == NULL)
        t->client = key_client_new(o->logs, o->nodes, o->redis_timeout_ms);
    enum err code = t->client == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                                      : key_client_open(t->client, o->filter, o->filter_length, e);
    if (code == ERR_OK)
        code = key_client_ask(t->client, true, b->keys, b->lengths, b->count, b->found, e);
    for (size_t i = 0; i < b->count && code == ERR_OK; i++)
        t->added += b->found[i] == KEY_ADDED;
    return code;
}

static enum err add_batch(struct follower *t, struct batch *b, struct error *e)
{
    if (t->view.log)
        return add_to_log(t, b, e);
    enum err code = ERR_OK;
    for (unsigned slot = 0; slot < 2 && code == ERR_OK; slot++)
        if (is_written(&t->view, slot))
            code = b->partly ? add_partly(t, b, slot, e) : add_some(t, b, slot, 0, b->count, e);
    return code;
}

/* Model: load. The fence is completed, as by anybody who meets a view without it. */
static enum err load(struct follower *t, struct error *e)
{
    uint64_t lost;
    t->viewed = false;
    enum err code = fence_load(&t->fence, &t->view, e);
    if (code == ERR_OK && view_unfenced(&t->view))
        code = fence_complete(&t->fence, &t->view, &lost, e);
    t->viewed = code == ERR_OK;
    return code;
}

/* As the other ways to add do, by layers. What Redis did not answer stays due: it may count twice, which is
 * safe. */
static enum err count_due(struct follower *t, struct error *e)
{
    struct key_name name;
    names_filter_key(&t->fence.names, "count", &name);
    for (unsigned slot = 0; slot < 2; slot++) {
        const struct generation *g = &t->view.slot[slot];
        struct tail_due *due = &t->due[slot];
        redisReply *reply;
        char field[80];
        if (due->count == 0 || due->generation != g->number)
            continue;
        (void)snprintf(field, sizeof(field), "%" PRIu64 ".%u", g->number, generation_written_layer(g));
        enum err code = link_command(t->link, fence_home(&t->fence), &reply, e, "HINCRBY %b %s %llu",
                                     name.text, name.length, field, (unsigned long long)due->count);
        if (code != ERR_OK)
            return code;
        freeReplyObject(reply);
        due->count = 0;
    }
    return ERR_OK;
}

/* @changed: the view is another one than before this call; what was added before must be added again. */
static enum err add_one(struct follower *t, struct batch *b, bool *changed, struct error *e)
{
    enum err code = add_batch(t, b, e);
    while (code == ERR_LOST || code == ERR_FENCED) {
        uint64_t epoch = t->view.epoch, incarnation = t->view.incarnation;
        code = load(t, e);
        if (code == ERR_OK && (t->view.epoch != epoch || t->view.incarnation != incarnation)) {
            *changed = true;
            return ERR_OK;
        }
        if (code == ERR_OK) { /* the same view, and fenced: what is missing is lost */
            b->partly = true;
            code = add_batch(t, b, e);
        }
    }
    return code == ERR_OK ? count_due(t, e) : code;
}

static enum err add_all(struct follower *t, struct batch *b, const struct tail_keys *k, bool *changed,
                        struct error *e)
{
    enum err code = ERR_OK;
    const char *at = k->bytes.data;
    for (size_t first = 0; first < k->count && code == ERR_OK && !*changed; first += b->count) {
        b->count = k->count - first < BATCH ? k->count - first : BATCH;
        b->partly = false;
        for (size_t i = 0; i < b->count; i++) {
            b->keys[i] = at;
            b->lengths[i] = k->lengths[first + i];
            at += b->lengths[i];
        }
        code = add_one(t, b, changed, e);
        if (code == ERR_OK)
            code = tail_tend(t, e);
    }
    return code;
}

enum err tail_add(struct follower *t, const struct tail_keys *k, struct error *e)
{
    if (k->failed || buffer_failed(&k->bytes))
        return error_set(e, ERR_NOMEM, "out of memory");
    if (k->count == 0)
        return ERR_OK;
    struct batch *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = t->viewed ? ERR_OK : load(t, e);
    bool changed = code == ERR_OK;
    for (int i = 0; i < VIEWS_MAX && code == ERR_OK && changed; i++) {
        changed = false;
        code = add_all(t, b, k, &changed, e);
    }
    free(b);
    if (code == ERR_OK && changed)
        return error_set(e, ERR_FENCED, "the view changes faster than keys can be added");
    if (code == ERR_OK)
        t->rows += k->count;
    else
        t->viewed = false;
    return code;
}
