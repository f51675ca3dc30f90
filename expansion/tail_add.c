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

enum { BATCH = 1000, VIEWS_MAX = 10 };

/* --- keys --- */

void tail_keys_put(struct tail_keys *k, const char *key, size_t length)
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
    uint64_t fresh[2]; /* by slot of the view: keys that were new there */
    bool partly;       /* keys of lost shards are left out */
};

static bool is_written(const struct view *v, unsigned slot)
{
    return v->slot[slot].number != 0 && (slot == v->current || phase_row(v->phase)->writes_alternate);
}

static void count_fresh(struct batch *b, unsigned slot, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        b->fresh[slot] += b->found[i] == 0;
}

/* Key by key: those whose shard is there. */
static enum err add_partly(struct tail *t, struct batch *b, unsigned slot, struct error *e)
{
    for (size_t i = 0; i < b->count; i++) {
        enum err code = fence_add(&t->fence, &t->view, &t->view.slot[slot], 1, &b->keys[i], &b->lengths[i],
                                  &b->found[i], e);
        if (code == ERR_LOST)
            t->lost++;
        else if (code != ERR_OK)
            return code;
        else
            count_fresh(b, slot, i, i + 1);
    }
    return ERR_OK;
}

static enum err add_batch(struct tail *t, struct batch *b, struct error *e)
{
    b->fresh[0] = b->fresh[1] = 0;
    for (unsigned slot = 0; slot < 2; slot++) {
        if (!is_written(&t->view, slot))
            continue;
        enum err code = b->partly ? add_partly(t, b, slot, e)
                                  : fence_add(&t->fence, &t->view, &t->view.slot[slot], b->count, b->keys,
                                              b->lengths, b->found, e);
        if (code != ERR_OK)
            return code;
        if (!b->partly)
            count_fresh(b, slot, 0, b->count);
    }
    return ERR_OK;
}

/* Model: load. The fence is completed, as by anybody who meets a view without it. */
static enum err load(struct tail *t, struct error *e)
{
    uint64_t lost;
    t->viewed = false;
    enum err code = fence_load(&t->fence, &t->view, e);
    if (code == ERR_OK && view_unfenced(&t->view))
        code = fence_complete(&t->fence, &t->view, &lost, e);
    t->viewed = code == ERR_OK;
    return code;
}

/* As the other ways to add do, by layers. */
static enum err count_new(struct tail *t, const struct batch *b, struct error *e)
{
    struct key_name name;
    names_filter_key(&t->fence.names, "count", &name);
    for (unsigned slot = 0; slot < 2; slot++) {
        const struct generation *g = &t->view.slot[slot];
        redisReply *reply;
        char field[80];
        if (b->fresh[slot] == 0)
            continue;
        (void)snprintf(field, sizeof(field), "%" PRIu64 ".%u", g->number, generation_written_layer(g));
        enum err code = link_command(t->link, fence_home(&t->fence), &reply, e, "HINCRBY %b %s %llu",
                                     name.text, name.length, field, (unsigned long long)b->fresh[slot]);
        if (code != ERR_OK)
            return code;
        freeReplyObject(reply);
    }
    t->added += b->fresh[t->view.current];
    return ERR_OK;
}

/* @changed: the view is another one than before this call; what was added before must be added again. */
static enum err add_one(struct tail *t, struct batch *b, bool *changed, struct error *e)
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
    return code == ERR_OK ? count_new(t, b, e) : code;
}

static enum err add_all(struct tail *t, struct batch *b, const struct tail_keys *k, bool *changed,
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

enum err tail_add(struct tail *t, const struct tail_keys *k, struct error *e)
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
