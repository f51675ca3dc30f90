/* SPDX-License-Identifier: MIT */
/* The happy path is: pin the blocks, send one batch to each node (block_batch.c), take the replies, call
 * @done. Possible failure modes are: another request has read a block (it is not asked for), a node that is
 * not connected, or whose connection breaks (its blocks are asked for again after a pause), an error of a
 * shard or an era (reported at once; what is under way is abandoned), a new view (replies no
 * longer count; reported), an end by the caller at any time. */
#include "shard/resident/block_read_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSE_US = 10 * 1000 };

/* --- the end --- */

/* Abandon all reads. Blocks stay pinned. */
static void stop(struct block_read *r)
{
    if (r->timer != NULL)
        event_free(r->timer);
    r->timer = NULL;
    while (!LIST_EMPTY(&r->under_way))
        batch_abandon(LIST_FIRST(&r->under_way));
    for (unsigned i = 0; i < r->count; i++)
        if (r->want[i].state != WANT_HAVE) {
            resident_drop_read(r->source.resident, &r->want[i].read);
            r->want[i].state = WANT_HAVE;
        }
}

void block_read_end(struct block_read *r)
{
    if (r == NULL)
        return;
    stop(r);
    for (unsigned i = 0; i < r->count; i++)
        resident_unpin(r->source.resident, &r->want[i].at);
    free(r->want);
    free(r->answers);
    free(r);
}

void block_read_finish(struct block_read *r, const struct block_result *result)
{
    stop(r);
    r->done(r->arg, result);
}

/* --- sending --- */

void block_read_go_on_later(struct block_read *r)
{
    (void)event_add(r->timer, &(struct timeval){.tv_usec = PAUSE_US});
}

static void send_all(struct block_read *r)
{
    bool all = true;
    for (unsigned i = 0; i < r->count; i++)
        if (r->want[i].state == WANT_ASK)
            all &= batch_send(r, i);
    for (unsigned i = 0; i < r->count && !all; i++)
        if (r->want[i].state == WANT_HELD_BACK)
            r->want[i].state = WANT_ASK;
    if (!all)
        block_read_go_on_later(r);
}

void block_read_go_on(struct block_read *r)
{
    if (r->missing == 0)
        block_read_finish(r, &(struct block_result){.code = ERR_OK, .text = ""});
    else
        send_all(r);
}

static void on_timer(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    block_read_go_on(arg);
}

/* --- the beginning --- */

static int compare(const void *a, const void *b)
{
    const struct want *x = a, *y = b;
    if (x->where != y->where)
        return x->where < y->where ? -1 : 1;
    return memcmp(&x->at, &y->at, sizeof(x->at)); /* any order will do that keeps a shard's blocks together */
}

/* List the blocks of the keys in all layers, each block once, without those of shards that are in memory. */
static void list(struct block_read *r, const struct key_hash *hashes, unsigned count, unsigned layers)
{
    const struct resident *m = r->source.resident;
    unsigned n = 0;
    for (unsigned l = 0; l < layers; l++)
        for (unsigned i = 0; i < count; i++) {
            struct key_place p;
            hash_place(&m->layer[l]->geometry, hash_mix(hashes[i], m->mix), &p);
            if (bitmap_stamp(m->layer[l], p.shard) == 0)
                r->want[n++] = (struct want){.at = {.layer = l, .shard = p.shard, .block = p.block},
                                             .where = placement_where(r->source.placement, l, p.shard)};
        }
    if (n > 1)
        qsort(r->want, n, sizeof(*r->want), compare);
    unsigned kept = 0;
    for (unsigned i = 0; i < n; i++)
        if (kept == 0 || compare(&r->want[kept - 1], &r->want[i]) != 0)
            r->want[kept++] = r->want[i];
    r->count = kept;
}

/* Pin the wants, and drop those that need no pin. r->count covers what is pinned, also on error. */
static enum err pin(struct block_read *r, struct error *e)
{
    enum err code = ERR_OK;
    unsigned count = r->count;
    r->count = 0;
    for (unsigned i = 0; i < count && code == ERR_OK; i++) {
        struct want *w = &r->want[r->count]; /* the address must not move once its read is registered */
        enum resident_pin needs = PIN_NEEDLESS;
        *w = r->want[i];
        code = resident_pin(r->source.resident, r->source.view, &w->at, &w->read, &needs, e);
        if (code != ERR_OK || needs == PIN_NEEDLESS)
            continue;
        w->state = needs == PIN_ASK ? WANT_ASK : WANT_HAVE;
        r->missing += needs == PIN_ASK;
        r->count++;
    }
    return code;
}

static bool make_room_for_answers(struct block_read *r)
{
    size_t at = 0;
    r->answers = malloc((size_t)r->missing * (BLOCK_BITS_MAX / 8) + 1);
    for (unsigned i = 0; i < r->count && r->answers != NULL; i++) {
        struct want *w = &r->want[i];
        w->bytes = r->answers + at;
        if (w->state == WANT_ASK)
            at += r->source.resident->layer[w->at.layer]->geometry.block_bits / 8;
    }
    return r->answers != NULL;
}

enum err block_read_start(struct block_read **out, const struct block_source *source, struct event_base *base,
                          struct async_client *async, const struct key_hash *hashes, unsigned count,
                          block_read_done_fn *done, void *arg, struct error *e)
{
    assert(count <= BLOCK_READ_KEYS_MAX);
    unsigned layers = atomic_load_explicit(&source->resident->layer_count, memory_order_acquire);
    struct block_read *r = calloc(1, sizeof(*r));
    struct want *want = calloc((size_t)count * layers + 1, sizeof(*want));
    struct event *timer = event_new(base, -1, 0, on_timer, r);
    if (r == NULL || want == NULL || timer == NULL) {
        if (timer != NULL)
            event_free(timer);
        free(want);
        free(r);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    *r = (struct block_read){
        .source = *source, .async = async, .timer = timer, .want = want, .done = done, .arg = arg};
    list(r, hashes, count, layers);
    enum err code = pin(r, e);
    if (code == ERR_OK && !make_room_for_answers(r))
        code = error_set(e, ERR_NOMEM, "out of memory");
    if (code != ERR_OK) {
        block_read_end(r);
        return code;
    }
    *out = r;
    if (r->missing == 0)
        event_active(r->timer, EV_TIMEOUT, 0);
    else
        send_all(r);
    return ERR_OK;
}
