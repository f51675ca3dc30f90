/* SPDX-License-Identifier: MIT */
#include "shard/log/own.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    uint64_t sequence;
    struct log_id id; /* under which it was last met or sent */
    uint8_t *bytes;
    uint32_t length;
    bool is_met; /* in the current stream and era */
};

struct own {
    pthread_mutex_t lock;
    struct lane lane;
    struct kept *one; /* elements [first, end), in order of sequence */
    size_t first, end, room;
    struct log_id folded; /* entries of @lane up to there need not be kept */
    _Atomic size_t bytes; /* written under the lock */
    size_t bytes_max;
    uint64_t registration, removed; /* the highest number of a removal that was met; 0: none was */
};

struct own *own_new(size_t bytes_max)
{
    struct own *own = calloc(1, sizeof(*own));
    if (own == NULL)
        return NULL;
    (void)pthread_mutex_init(&own->lock, NULL); /* cannot fail, as it sets no attributes */
    own->bytes_max = bytes_max;
    return own;
}

void own_free(struct own *own)
{
    if (own == NULL)
        return;
    for (size_t i = own->first; i < own->end; i++)
        free(own->one[i].bytes);
    (void)pthread_mutex_destroy(&own->lock);
    free(own->one);
    free(own);
}

static bool is_in(const struct own *own, const struct lane *lane)
{
    return own->lane.era == lane->era && strcmp(own->lane.key.text, lane->key.text) == 0;
}

void own_enter(struct own *own, const struct lane *lane)
{
    HOLD(&own->lock);
    for (size_t i = own->first; i < own->end && !is_in(own, lane); i++)
        own->one[i].is_met = false;
    if (!is_in(own, lane))
        own->folded = (struct log_id){0};
    own->lane = *lane;
}

void own_go_on(struct own *own, const struct lane *from, const struct lane *lane)
{
    (void)pthread_mutex_lock(&own->lock);
    if (is_in(own, from) && !is_in(own, lane)) {
        own->lane = *lane;
        own->folded = (struct log_id){0};
    }
    (void)pthread_mutex_unlock(&own->lock);
    own_enter(own, lane);
}

bool own_is_in(struct own *own, const struct lane *lane)
{
    HOLD(&own->lock);
    bool all = is_in(own, lane);
    for (size_t i = own->first; i < own->end && all; i++)
        all = own->one[i].is_met;
    return all;
}

void own_register(struct own *own, uint64_t registration)
{
    HOLD(&own->lock);
    own->registration = registration;
}

void own_remove(struct own *own, uint64_t registration)
{
    HOLD(&own->lock);
    if (registration > own->removed)
        own->removed = registration;
}

/* Under the lock. */
static bool is_removed(const struct own *own)
{
    return own->removed != 0 && own->removed >= own->registration;
}

uint64_t own_is_removed(struct own *own)
{
    HOLD(&own->lock);
    return is_removed(own) ? own->removed + 1 : 0;
}

static size_t cost(unsigned entries, size_t bytes)
{
    return entries * sizeof(struct kept) + bytes;
}

enum err own_room(struct own *own, unsigned entries, size_t bytes, struct error *e)
{
    (void)pthread_mutex_lock(&own->lock);
    struct key_name key = own->lane.key;
    (void)pthread_mutex_unlock(&own->lock);
    size_t kept = own_bytes(own);
    if (kept + cost(entries, bytes) <= own->bytes_max)
        return ERR_OK;
    return error_set(e, ERR_NOMEM,
                     "lane %s: %zu bytes of this process' entries are not in the shards yet, and it keeps "
                     "at most %zu; adds wait for the filter's folder",
                     key.text, kept, own->bytes_max);
}

/* The index of the first entry with at least that sequence. */
static size_t place(const struct own *own, uint64_t sequence)
{
    size_t low = own->first, high = own->end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (own->one[middle].sequence < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct kept *find(struct own *own, uint64_t sequence)
{
    size_t i = place(own, sequence);
    return i < own->end && own->one[i].sequence == sequence ? &own->one[i] : NULL;
}

/* Make room for an element behind the end. */
static bool make_room(struct own *own)
{
    if (own->end < own->room)
        return true;
    if (own->first > own->room / 2) {
        memmove(own->one, own->one + own->first, (own->end - own->first) * sizeof(*own->one));
        own->end -= own->first;
        own->first = 0;
        return true;
    }
    size_t room = own->room == 0 ? 64 : 2 * own->room;
    struct kept *one = realloc(own->one, room * sizeof(*one));
    if (one == NULL)
        return false;
    own->one = one;
    own->room = room;
    return true;
}

static struct kept *keep(struct own *own, uint64_t sequence, const void *bytes, size_t length)
{
    uint8_t *copy = malloc(length);
    if (copy == NULL || !make_room(own)) {
        free(copy);
        return NULL;
    }
    size_t i = place(own, sequence);
    memcpy(copy, bytes, length);
    memmove(own->one + i + 1, own->one + i, (own->end - i) * sizeof(*own->one));
    own->end++;
    own->one[i] = (struct kept){.sequence = sequence, .bytes = copy, .length = (uint32_t)length};
    own->bytes += cost(1, length);
    return &own->one[i];
}

/* Under the lock: whether an entry that is read in @lane may be acknowledged. */
static enum err check(const struct own *own, const struct lane *lane, struct error *e)
{
    if (!is_in(own, lane))
        return error_set(e, ERR_FENCED, "lane %s has another replication id, or was replaced",
                         lane->key.text);
    if (is_removed(own))
        return error_set(e, ERR_FENCED, "lane %s: this process was removed from the register of writers",
                         lane->key.text);
    return ERR_OK;
}

/* Under the lock. */
static enum err keep_met(struct own *own, uint64_t sequence, struct log_id id, const void *bytes,
                         size_t length, struct error *e)
{
    struct kept *one = find(own, sequence);
    if (one == NULL && (one = keep(own, sequence, bytes, length)) == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    if (!one->is_met) { /* the first one in the log counts */
        one->id = id;
        one->is_met = true;
    }
    return ERR_OK;
}

enum err own_met(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id id,
                 const void *bytes, size_t length, struct error *e)
{
    HOLD(&own->lock);
    enum err code = check(own, lane, e);
    return code == ERR_OK ? keep_met(own, sequence, id, bytes, length, e) : code;
}

enum err own_there(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id at,
                   const void *bytes, size_t length, struct error *e)
{
    HOLD(&own->lock);
    enum err code = check(own, lane, e);
    if (code == ERR_OK && own->folded.ms == 0)
        code = error_set(e, ERR_BUSY, "lane %s: nothing of it is folded yet", lane->key.text);
    if (code == ERR_OK && log_id_compare(at, own->folded) > 0)
        code = keep_met(own, sequence, at, bytes, length, e);
    return code;
}

/* Under the lock. */
static void raise_folded(struct own *own, const struct lane *lane, struct log_id id)
{
    if (is_in(own, lane) && log_id_compare(id, own->folded) > 0)
        own->folded = id;
}

void own_base(struct own *own, const struct lane *lane, struct log_id id)
{
    HOLD(&own->lock);
    raise_folded(own, lane, id);
}

void own_folded(struct own *own, const struct lane *lane, struct log_id id)
{
    HOLD(&own->lock);
    raise_folded(own, lane, id);
    while (is_in(own, lane) && own->first < own->end) {
        struct kept *one = &own->one[own->first];
        if (!one->is_met || log_id_compare(one->id, id) > 0)
            break;
        own->bytes -= cost(1, one->length);
        free(one->bytes);
        own->first++;
    }
}

size_t own_bytes(const struct own *own)
{
    return atomic_load(&own->bytes);
}

size_t own_count(struct own *own)
{
    HOLD(&own->lock);
    return own->end - own->first;
}

/* --- for the roll call --- */

bool own_from(struct own *own, struct log_id *out)
{
    bool any = false;
    HOLD(&own->lock);
    for (size_t i = own->first; i < own->end; i++) {
        const struct kept *one = &own->one[i];
        if (!one->is_met && (!any || log_id_compare(one->id, *out) < 0)) {
            *out = one->id;
            any = true;
        }
    }
    return any;
}

bool own_missing(struct own *own, uint64_t sequence, uint64_t *found, uint8_t bytes[LOG_ENTRY_BYTES_MAX],
                 size_t *length)
{
    HOLD(&own->lock);
    size_t i = place(own, sequence);
    while (i < own->end && own->one[i].is_met)
        i++;
    bool any = i < own->end;
    if (any) {
        *found = own->one[i].sequence;
        *length = own->one[i].length;
        memcpy(bytes, own->one[i].bytes, own->one[i].length);
    }
    return any;
}

void own_sent(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id id)
{
    HOLD(&own->lock);
    struct kept *one = find(own, sequence);
    if (one != NULL && is_in(own, lane) && !one->is_met)
        one->id = id;
}

void own_found(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id id)
{
    HOLD(&own->lock);
    struct kept *one = find(own, sequence);
    if (one != NULL && is_in(own, lane) && !one->is_met) {
        one->id = id;
        one->is_met = true;
    }
}
