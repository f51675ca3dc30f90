/* SPDX-License-Identifier: MIT */
#include "service/jobs/followers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/follow/slots.h"
#include "expansion/follow/follower.h"
#include "service/filters/sources.h"

enum {
    CLEAN_EVERY_US = 10 * 1000 * 1000, /* before a failed drop of a slot is repeated */
    SLOTS_EVERY_MS = 30 * 1000,
    SLOTS_LEAST_MS = 500,
    FOLLOW_CONNECTIONS = 4 /* docs/howto/plan-capacity.md gives this number */
};

_Static_assert((int)FOLLOWER_KEYSET == (int)FOLLOW_BY_IDS &&
                   (int)FOLLOWER_LOGICAL == (int)FOLLOW_BY_LOGICAL &&
                   (int)FOLLOWER_OUTBOX == (int)FOLLOW_BY_OUTBOX,
               "modes");

/* One filter. Its thread, if any, follows, or drops a slot that was left. */
struct entry {
    struct entry *next;
    char *name;
    bool runs;    /* its thread exists */
    bool follows; /* its thread follows; false: it cleans up */
    bool cleaned; /* nothing is left to clean up */
    uint64_t tried_at;
    uint64_t hash; /* hash of the configuration that the thread uses */
    const struct config *config;
    struct follower_options options;
    char slot[FOLLOWER_SLOT_MAX];
    atomic_bool stop, drop, ended, failed;
    pthread_t thread;
};

/* The look at all slots of the installation, in a temporary thread. */
struct slots_look {
    bool runs;
    uint64_t due_at, first_at;
    const struct config *config;
    char (*slot)[FOLLOWER_SLOT_MAX];
    struct slots_options options;
    atomic_bool stop, ended;
    pthread_t thread;
};

struct followers {
    struct service *service;
    struct pool *pool; /* for all followers, as there is one dsn */
    struct entry *first;
    struct slots_look slots;
};

struct followers *followers_new(struct service *s)
{
    struct followers *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->service = s;
    t->pool = pool_new(FOLLOW_CONNECTIONS);
    if (t->pool != NULL)
        return t;
    free(t);
    return NULL;
}

/* --- the thread --- */

static void *run(void *arg)
{
    struct entry *n = arg;
    struct error e = {.text = ""};
    if (n->follows) {
        follower_run(&n->options);
    } else {
        enum err code = follower_clean(&n->options, &e);
        atomic_store(&n->failed, code != ERR_OK);
        if (code != ERR_OK)
            log_debug("follow_cleanup_failed", "filter=%s code=%s error=%s", log_quote(n->name),
                      error_name(code), log_quote(e.text));
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

static void set_options(struct entry *n, const struct service *s, struct pool *pool,
                        const struct config_filter *f)
{
    const struct config *c = n->config;
    follower_slot_of(n->slot, f->slot, f->name);
    n->options = (struct follower_options){
        .nodes = &s->nodes,
        .prefix = c->prefix,
        .filter = n->name,
        .filter_length = strlen(n->name),
        .owner = s->owner,
        .logs = s->logs,
        .source = sources_config(c, f),
        .pool = pool,
        .mode = (enum follower_mode)f->follow_by,
        .publication = f->publication,
        .slot = n->slot,
        .outbox = f->outbox,
        .slot_wal_max = c->slot_wal_max,
        .always = f->follow,
        .interval_ms = (unsigned)c->follower_interval_ms,
        .lease_ms = (unsigned)c->lease_ms,
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
    const uint64_t numbers[] = {f->follow_by, f->follow,           c->slot_wal_max, c->follower_interval_ms,
                                c->lease_ms,  c->settle_timeout_ms};
    uint64_t hash = XXH3_64bits(numbers, sizeof(numbers));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        hash = XXH3_64bits_withSeed(texts[i], strlen(texts[i]), hash);
    return hash;
}

static void start(struct followers *t, struct entry *n, const struct config *config,
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
    set_options(n, t->service, t->pool, f);
    n->runs = pthread_create(&n->thread, NULL, run, n) == 0;
    if (!n->runs) {
        config_release(n->config);
        n->config = NULL;
        log_warn("follow_failed", "filter=%s error=\"its thread could not be started\"", log_quote(n->name));
    }
}

/* --- requests of the controller --- */

static struct entry *find(struct followers *t, const char *name)
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

/* True if the next follower cannot use the present slot. */
static bool is_another_slot(const struct entry *n, const struct config_filter *f)
{
    char slot[FOLLOWER_SLOT_MAX];
    follower_slot_of(slot, f->slot, f->name);
    return f->follow_by != FOLLOW_BY_LOGICAL || strcmp(n->slot, slot) != 0 ||
           strcmp(n->options.publication, f->publication) != 0 ||
           strcmp(n->options.source.table, f->table) != 0;
}

static void stop(struct entry *n, bool drop)
{
    if (!atomic_load(&n->stop))
        atomic_store(&n->drop, drop);
    atomic_store(&n->stop, true);
}

void followers_want(struct followers *t, const struct config *config, const struct config_filter *f,
                    bool wanted)
{
    struct entry *n = find(t, f->name);
    if (n == NULL)
        return;
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

/* --- slots --- */

static void *look_at_slots(void *arg)
{
    struct slots_look *l = arg;
    struct error e = {.text = ""};
    enum err code = slots_reconcile(&l->options, &e);
    if (code != ERR_OK && code != ERR_CANCELLED)
        log_warn("slots_not_checked", "code=%s error=%s", error_name(code), log_quote(e.text));
    atomic_store(&l->ended, true);
    return NULL;
}

static void end_slots(struct slots_look *l)
{
    if (l->runs)
        (void)pthread_join(l->thread, NULL);
    free(l->slot);
    l->slot = NULL;
    config_release(l->config);
    l->config = NULL;
    l->runs = false;
}

static bool name_slots(struct slots_look *l)
{
    const struct config *c = l->config;
    size_t n = 0;
    l->slot = calloc(c->filter_count + 1, sizeof(*l->slot));
    for (size_t i = 0; l->slot != NULL && i < c->filter_count; i++) {
        const struct config_filter *f = &c->filter[i];
        if (f->follow_by == FOLLOW_BY_LOGICAL && f->table[0] != '\0')
            follower_slot_of(l->slot[n++], f->slot, f->name);
    }
    l->options.named = (const char(*)[FOLLOWER_SLOT_MAX])l->slot;
    l->options.named_count = n;
    return l->slot != NULL;
}

/* Every half grace time at the latest, or others would consider our slots unnamed. */
static void begin_slots(struct followers *t)
{
    struct slots_look *l = &t->slots;
    l->config = live_config_acquire(t->service->config);
    const struct config *c = l->config;
    uint64_t every = c->slot_grace_ms / 2 < SLOTS_EVERY_MS ? c->slot_grace_ms / 2 : SLOTS_EVERY_MS;
    uint64_t now = clock_mono_us();
    l->first_at = l->first_at == 0 ? now : l->first_at;
    l->due_at = now + (every < SLOTS_LEAST_MS ? SLOTS_LEAST_MS : every) * 1000;
    l->options = (struct slots_options){.nodes = &t->service->nodes,
                                        .prefix = c->prefix,
                                        .dsn = c->dsn,
                                        .grace_ms = c->slot_grace_ms,
                                        .slot_wal_max = c->slot_wal_max,
                                        .watched_ms = (now - l->first_at) / 1000,
                                        .redis_timeout_ms = (unsigned)c->redis_timeout_ms,
                                        .postgres_timeout_ms = (unsigned)c->postgres_timeout_ms,
                                        .stop = &l->stop};
    atomic_store(&l->ended, false);
    l->runs = name_slots(l) && pthread_create(&l->thread, NULL, look_at_slots, l) == 0;
    if (!l->runs)
        end_slots(l);
}

/* --- rounds --- */

void followers_end_round(struct followers *t, const struct config *config)
{
    if (t->slots.runs && atomic_load(&t->slots.ended))
        end_slots(&t->slots);
    if (!t->slots.runs && clock_mono_us() >= t->slots.due_at)
        begin_slots(t);
    for (struct entry *n = t->first; n != NULL; n = n->next) {
        if (!n->runs || config_find(config, n->name, strlen(n->name)) != NULL)
            continue;
        stop(n, true);
        if (atomic_load(&n->ended))
            join(n);
    }
}

void followers_stop(struct followers *t)
{
    if (t == NULL)
        return;
    for (struct entry *n = t->first; n != NULL; n = n->next)
        stop(n, false);
    atomic_store(&t->slots.stop, true);
    end_slots(&t->slots);
    while (t->first != NULL) {
        struct entry *n = t->first;
        t->first = n->next;
        join(n);
        free(n->name);
        free(n);
    }
    pool_free(t->pool);
    free(t);
}
