/* SPDX-License-Identifier: MIT */
#include "service/tails.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/tail.h"

enum { CLEAN_EVERY_US = 10 * 1000 * 1000 }; /* where a slot could not be dropped */

_Static_assert((int)TAIL_KEYSET == (int)CATCH_UP_KEYSET && (int)TAIL_LOGICAL == (int)CATCH_UP_LOGICAL &&
                   (int)TAIL_OUTBOX == (int)CATCH_UP_OUTBOX,
               "modes");

/* One filter. Its thread, where there is one, follows it, or drops what was left. */
struct entry {
    struct entry *next;
    char *name;
    bool seen;    /* in this round */
    bool runs;    /* there is a thread */
    bool follows; /* it is to follow, not to clean up */
    bool cleaned; /* nothing is left */
    uint64_t tried_at;
    uint64_t hash; /* of the configuration that it runs by */
    const struct config *config;
    struct tail_options options;
    char slot[TAIL_SLOT_MAX];
    atomic_bool stop, drop, ended, failed;
    pthread_t thread;
};

struct tails {
    struct service *service;
    struct entry *first;
};

struct tails *tails_new(struct service *s)
{
    struct tails *t = calloc(1, sizeof(*t));
    if (t != NULL)
        t->service = s;
    return t;
}

/* --- the thread --- */

static void *run(void *arg)
{
    struct entry *n = arg;
    struct error e = {.text = ""};
    if (n->follows) {
        tail_run(&n->options);
    } else if (tail_clean(&n->options, &e) != ERR_OK) {
        atomic_store(&n->failed, true);
        log_debug("tail_not_cleaned", "filter=%s why=%s", log_quote(n->name), log_quote(e.text));
    }
    atomic_store(&n->ended, true);
    return NULL;
}

static void join(struct entry *n)
{
    if (!n->runs)
        return;
    (void)pthread_join(n->thread, NULL);
    n->runs = false;
    n->cleaned = !n->follows && !atomic_load(&n->failed);
    config_release(n->config);
    n->config = NULL;
}

static void set_options(struct entry *n, const struct service *s, const struct config_filter *f)
{
    const struct config *c = n->config;
    tail_slot_of(n->slot, f->slot, f->name);
    n->options = (struct tail_options){
        .nodes = &s->nodes,
        .prefix = c->prefix,
        .filter = n->name,
        .filter_length = strlen(n->name),
        .owner = s->owner,
        .source =
            {.dsn = c->dsn, .table = f->table, .id_column = f->id_column, .key = f->key, .where = f->where},
        .mode = (enum tail_mode)f->catch_up,
        .publication = f->publication,
        .slot = n->slot,
        .outbox = f->outbox,
        .max_slot_wal = c->max_slot_wal,
        .always = f->tail,
        .interval_ms = (unsigned)c->tail_interval_ms,
        .lease_ms = (unsigned)c->lease_ms,
        .tombstone_ms = c->tombstone_ms,
        .redis_timeout_ms = (unsigned)c->redis_timeout_ms,
        .postgres_timeout_ms = (unsigned)c->postgres_timeout_ms,
        .settle_timeout_ms = (unsigned)c->settle_timeout_ms,
        .stop = &n->stop,
        .drop = &n->drop,
    };
}

static uint64_t hash_of(const struct config *c, const struct config_filter *f)
{
    const char *const texts[] = {f->table,       f->id_column, f->key,   f->where,
                                 f->publication, f->slot,      f->outbox};
    const uint64_t numbers[] = {f->catch_up,         f->tail,     c->max_slot_wal,
                                c->tail_interval_ms, c->lease_ms, c->settle_timeout_ms};
    uint64_t hash = XXH3_64bits(numbers, sizeof(numbers));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        hash = XXH3_64bits_withSeed(texts[i], strlen(texts[i]), hash);
    return hash;
}

static void start(struct tails *t, struct entry *n, const struct config *config,
                  const struct config_filter *f, bool follows)
{
    n->config = config_hold(config);
    n->follows = follows;
    n->hash = hash_of(config, f);
    n->tried_at = clock_mono_us();
    atomic_store(&n->stop, false);
    atomic_store(&n->drop, false);
    atomic_store(&n->ended, false);
    atomic_store(&n->failed, false);
    set_options(n, t->service, f);
    n->runs = pthread_create(&n->thread, NULL, run, n) == 0;
    if (!n->runs) {
        config_release(n->config);
        n->config = NULL;
        log_warn("tail", "filter=%s why=\"its thread could not be started\"", log_quote(n->name));
    }
}

/* --- what the keeper says --- */

static struct entry *find(struct tails *t, const char *name)
{
    for (struct entry *n = t->first; n != NULL; n = n->next)
        if (strcmp(n->name, name) == 0)
            return n;
    struct entry *n = calloc(1, sizeof(*n));
    if (n == NULL || (n->name = strdup(name)) == NULL) {
        free(n);
        return NULL;
    }
    n->next = t->first;
    t->first = n;
    return n;
}

/* What the slot holds is of no use to the tail that comes next. */
static bool is_another_slot(const struct entry *n, const struct config_filter *f)
{
    char slot[TAIL_SLOT_MAX];
    tail_slot_of(slot, f->slot, f->name);
    return f->catch_up != CATCH_UP_LOGICAL || strcmp(n->slot, slot) != 0 ||
           strcmp(n->options.publication, f->publication) != 0 ||
           strcmp(n->options.source.table, f->table) != 0;
}

static void stop(struct entry *n, bool drop)
{
    if (!atomic_load(&n->stop))
        atomic_store(&n->drop, drop);
    atomic_store(&n->stop, true);
}

void tails_want(struct tails *t, const struct config *config, const struct config_filter *f, bool wanted)
{
    struct entry *n = find(t, f->name);
    if (n == NULL)
        return;
    n->seen = true;
    if (n->runs && atomic_load(&n->ended))
        join(n);
    if (n->runs) {
        if (n->follows && (!wanted || n->hash != hash_of(config, f)))
            stop(n, !wanted || is_another_slot(n, f));
        return;
    }
    if (wanted)
        start(t, n, config, f, true);
    else if (!n->cleaned && (n->tried_at == 0 || clock_mono_us() - n->tried_at > CLEAN_EVERY_US))
        start(t, n, config, f, false);
}

void tails_keep(struct tails *t, const char *filter)
{
    struct entry *n = find(t, filter);
    if (n != NULL)
        n->seen = true;
}

void tails_end_round(struct tails *t)
{
    for (struct entry *n = t->first; n != NULL; n = n->next) {
        if (!n->seen && n->runs)
            stop(n, true);
        if (!n->seen && n->runs && atomic_load(&n->ended))
            join(n);
        n->seen = false;
    }
}

void tails_stop(struct tails *t)
{
    if (t == NULL)
        return;
    for (struct entry *n = t->first; n != NULL; n = n->next)
        stop(n, false);
    while (t->first != NULL) {
        struct entry *n = t->first;
        t->first = n->next;
        join(n);
        free(n->name);
        free(n);
    }
    free(t);
}
