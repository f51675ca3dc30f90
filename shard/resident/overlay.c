/* SPDX-License-Identifier: MIT */
#include "shard/resident/overlay.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "shard/filter/block.h"

enum {
    BUCKETS_MIN = 64,
    WALK_ENTRIES = 4096, /* entries that one step of a walk looks at */
    OR_KEYS = 4 * LOG_KEYS_MAX
};

struct held {
    LIST_ENTRY(held) next; /* in its bucket */
    struct overlay_key key;
    uint32_t layer;
};
LIST_HEAD(bucket, held);

struct entry {
    STAILQ_ENTRY(entry) next; /* of its lane, oldest first */
    struct log_id id;
    unsigned count;
    struct held held[];
};
STAILQ_HEAD(entries, entry);

struct overlay {
    pthread_mutex_t lock;
    unsigned lanes;
    struct entries lane[LOG_LANES_MAX];
    struct log_id folded[LOG_LANES_MAX]; /* of each lane: the latest `folded` */
    /* A `folded` that waits for the reads that were under way when it came, those with lower tickets; then
     * the latest one, if any came meanwhile. */
    bool waits, then_waits;
    uint64_t ticket, then_ticket;
    struct log_id bound[LOG_LANES_MAX];
    TAILQ_HEAD(, overlay_read) reads; /* oldest first */
    LIST_HEAD(, overlay_walk) walks;
    uint64_t tickets;
    struct bucket *buckets;
    size_t bucket_count; /* a power of two */
    uint64_t keys, bytes;
};

struct overlay *overlay_new(unsigned lanes)
{
    assert(lanes <= LOG_LANES_MAX);
    struct overlay *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return NULL;
    TAILQ_INIT(&o->reads);
    LIST_INIT(&o->walks);
    o->lanes = lanes;
    o->bucket_count = BUCKETS_MIN;
    for (unsigned i = 0; i < lanes; i++)
        STAILQ_INIT(&o->lane[i]);
    o->buckets = calloc(o->bucket_count, sizeof(*o->buckets));
    if (pthread_mutex_init(&o->lock, NULL) != 0 || o->buckets == NULL) {
        overlay_free(o);
        return NULL;
    }
    return o;
}

void overlay_free(struct overlay *o)
{
    if (o == NULL)
        return;
    for (unsigned i = 0; i < o->lanes; i++)
        while (!STAILQ_EMPTY(&o->lane[i])) {
            struct entry *first = STAILQ_FIRST(&o->lane[i]);
            STAILQ_REMOVE_HEAD(&o->lane[i], next);
            free(first);
        }
    (void)pthread_mutex_destroy(&o->lock);
    free(o->buckets);
    free(o);
}

/* --- keys --- */

static struct bucket *bucket_of(struct overlay *o, unsigned layer, uint32_t shard, uint32_t block)
{
    uint64_t h = ((uint64_t)shard << 32 | block) * UINT64_C(0x9e3779b97f4a7c15) + layer;
    return &o->buckets[(h ^ h >> 32) & (o->bucket_count - 1)];
}

/* Have as many buckets as keys. Without memory, chains grow longer. */
static void widen(struct overlay *o)
{
    size_t count = o->bucket_count;
    while (count < o->keys)
        count *= 2;
    struct bucket *wider = count == o->bucket_count ? NULL : calloc(count, sizeof(*wider));
    if (wider == NULL)
        return;
    free(o->buckets);
    o->buckets = wider;
    o->bucket_count = count;
    for (unsigned lane = 0; lane < o->lanes; lane++) {
        struct entry *one;
        STAILQ_FOREACH(one, &o->lane[lane], next)
        for (unsigned i = 0; i < one->count; i++) {
            struct held *h = &one->held[i];
            LIST_INSERT_HEAD(bucket_of(o, h->layer, h->key.shard, h->key.block), h, next);
        }
    }
}

static size_t entry_bytes(unsigned count)
{
    return sizeof(struct entry) + count * sizeof(struct held);
}

enum err overlay_add(struct overlay *o, unsigned lane, struct log_id id, unsigned layer,
                     const struct overlay_key *keys, unsigned count, struct error *e)
{
    struct entry *added = malloc(entry_bytes(count));
    if (added == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    added->id = id;
    added->count = count;
    pthread_mutex_lock(&o->lock);
    STAILQ_INSERT_TAIL(&o->lane[lane], added, next);
    for (unsigned i = 0; i < count; i++) {
        added->held[i].key = keys[i];
        added->held[i].layer = layer;
        LIST_INSERT_HEAD(bucket_of(o, layer, keys[i].shard, keys[i].block), &added->held[i], next);
    }
    o->keys += count;
    o->bytes += entry_bytes(count);
    widen(o);
    pthread_mutex_unlock(&o->lock);
    return ERR_OK;
}

static void drop_first(struct overlay *o, struct entries *lane)
{
    struct entry *first = STAILQ_FIRST(lane);
    struct overlay_walk *w;
    LIST_FOREACH(w, &o->walks, next)
    if (w->at == first)
        w->at = STAILQ_NEXT(first, next);
    for (unsigned i = 0; i < first->count; i++)
        LIST_REMOVE(&first->held[i], next);
    STAILQ_REMOVE_HEAD(lane, next);
    o->keys -= first->count;
    o->bytes -= entry_bytes(first->count);
    free(first);
}

static void or_block(struct overlay *o, unsigned layer, const struct geometry *g, uint32_t shard,
                     uint32_t block, uint8_t *bytes)
{
    struct held *one;
    struct key_place place;
    LIST_FOREACH(one, bucket_of(o, layer, shard, block), next)
    {
        if (one->layer != layer || one->key.shard != shard || one->key.block != block)
            continue;
        hash_place(g, one->key.hash, &place);
        place.block = 0;
        (void)block_set(g, &place, bytes);
    }
}

/* --- walks --- */

void overlay_walk_begin(struct overlay *o, struct overlay_walk *w)
{
    pthread_mutex_lock(&o->lock);
    w->lane = 0;
    w->at = STAILQ_FIRST(&o->lane[0]);
    LIST_INSERT_HEAD(&o->walks, w, next);
    pthread_mutex_unlock(&o->lock);
}

static unsigned meet(const struct entry *one, struct overlay_met *met)
{
    for (unsigned i = 0; i < one->count; i++)
        met[i] = (struct overlay_met){.key = one->held[i].key, .layer = one->held[i].layer};
    return one->count;
}

bool overlay_walk_next(struct overlay *o, struct overlay_walk *w, const struct log_id *from,
                       const struct log_id *to, struct overlay_met *met, unsigned room, unsigned *count)
{
    assert(room >= LOG_KEYS_MAX);
    *count = 0;
    pthread_mutex_lock(&o->lock);
    for (unsigned looked = 0; w->lane < o->lanes && looked < WALK_ENTRIES; looked++) {
        const struct entry *one = w->at;
        if (one == NULL || (to != NULL && log_id_compare(one->id, to[w->lane]) > 0)) {
            w->lane++;
            w->at = w->lane < o->lanes ? STAILQ_FIRST(&o->lane[w->lane]) : NULL;
            continue;
        }
        if (one->count > room - *count)
            break;
        if (from == NULL || log_id_compare(one->id, from[w->lane]) > 0)
            *count += meet(one, met + *count);
        w->at = STAILQ_NEXT(one, next);
    }
    bool more = w->lane < o->lanes || *count > 0;
    pthread_mutex_unlock(&o->lock);
    return more;
}

void overlay_walk_end(struct overlay *o, struct overlay_walk *w)
{
    pthread_mutex_lock(&o->lock);
    LIST_REMOVE(w, next);
    pthread_mutex_unlock(&o->lock);
}

void overlay_or(struct overlay *o, unsigned layer, struct bitmap *b)
{
    struct overlay_walk walk;
    struct overlay_met met[OR_KEYS];
    struct key_place place;
    unsigned count;
    overlay_walk_begin(o, &walk);
    while (overlay_walk_next(o, &walk, NULL, NULL, met, OR_KEYS, &count))
        for (unsigned i = 0; i < count; i++)
            if (met[i].layer == layer && bitmap_is_loading(b, met[i].key.shard)) {
                hash_place(&b->geometry, met[i].key.hash, &place);
                (void)bitmap_set(b, &place);
            }
    overlay_walk_end(o, &walk);
}

void overlay_size(struct overlay *o, uint64_t *keys, uint64_t *bytes)
{
    pthread_mutex_lock(&o->lock);
    *keys = o->keys;
    *bytes = o->bytes + sizeof(*o) + o->bucket_count * sizeof(*o->buckets);
    pthread_mutex_unlock(&o->lock);
}

/* --- dropping entries --- */

static void forget_reads(struct overlay *o)
{
    struct overlay_read *read;
    while ((read = TAILQ_FIRST(&o->reads)) != NULL) {
        read->counts = false;
        TAILQ_REMOVE(&o->reads, read, next);
    }
}

void overlay_reset(struct overlay *o)
{
    pthread_mutex_lock(&o->lock);
    forget_reads(o);
    o->waits = o->then_waits = false;
    for (unsigned i = 0; i < o->lanes; i++) {
        while (!STAILQ_EMPTY(&o->lane[i]))
            drop_first(o, &o->lane[i]);
        o->folded[i] = (struct log_id){0};
    }
    pthread_mutex_unlock(&o->lock);
}

static bool reads_ended(const struct overlay *o, uint64_t ticket)
{
    return TAILQ_EMPTY(&o->reads) || TAILQ_FIRST(&o->reads)->ticket >= ticket;
}

static void drop(struct overlay *o)
{
    while (o->waits && reads_ended(o, o->ticket)) {
        for (unsigned i = 0; i < o->lanes; i++)
            while (!STAILQ_EMPTY(&o->lane[i]) &&
                   log_id_compare(STAILQ_FIRST(&o->lane[i])->id, o->bound[i]) <= 0)
                drop_first(o, &o->lane[i]);
        o->waits = o->then_waits;
        o->ticket = o->then_ticket;
        memcpy(o->bound, o->folded, sizeof(o->bound));
        o->then_waits = false;
    }
}

void overlay_folded(struct overlay *o, const struct log_id *folded)
{
    pthread_mutex_lock(&o->lock);
    for (unsigned i = 0; i < o->lanes; i++)
        if (log_id_compare(folded[i], o->folded[i]) > 0)
            o->folded[i] = folded[i];
    if (o->waits) {
        o->then_waits = true;
        o->then_ticket = o->tickets;
    } else {
        o->waits = true;
        o->ticket = o->tickets;
        memcpy(o->bound, o->folded, sizeof(o->bound));
    }
    drop(o);
    pthread_mutex_unlock(&o->lock);
}

void overlay_read_begin(struct overlay *o, struct overlay_read *read)
{
    pthread_mutex_lock(&o->lock);
    read->ticket = o->tickets++;
    read->counts = true;
    TAILQ_INSERT_TAIL(&o->reads, read, next);
    pthread_mutex_unlock(&o->lock);
}

/* Complete the block before the read ends: entries that the read kept may be dropped then. */
bool overlay_read_end(struct overlay *o, struct overlay_read *read, unsigned layer, const struct geometry *g,
                      uint32_t shard, uint32_t block, uint8_t *bytes)
{
    pthread_mutex_lock(&o->lock);
    bool counts = read->counts;
    if (counts) {
        or_block(o, layer, g, shard, block, bytes);
        TAILQ_REMOVE(&o->reads, read, next);
        drop(o);
    }
    pthread_mutex_unlock(&o->lock);
    return counts;
}

void overlay_read_cancel(struct overlay *o, struct overlay_read *read)
{
    pthread_mutex_lock(&o->lock);
    if (read->counts) {
        TAILQ_REMOVE(&o->reads, read, next);
        drop(o);
    }
    pthread_mutex_unlock(&o->lock);
}

void overlay_discard(struct overlay *o)
{
    pthread_mutex_lock(&o->lock);
    forget_reads(o);
    drop(o);
    pthread_mutex_unlock(&o->lock);
}
