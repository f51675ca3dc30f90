/* SPDX-License-Identifier: MIT */
/* Which Redis masters a job works with, and whether its filter trusts them. A master that fails over, or is
 * restarted, may lack what was written last: so a job looks now and then, and where its next move relies on
 * what it has written. */
#include <inttypes.h>
#include <stdlib.h>
#include <xxhash.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/driver_internal.h"

bool driver_suspects(const struct driver *d, const struct lineage *one)
{
    return d->view.trusted.known && fence_matters(d->o->nodes, &d->view, one) &&
           !trusted_contains(&d->view.trusted, one->id);
}

bool driver_suspects_any(const struct driver *d, const struct lineages *s)
{
    for (unsigned i = 0; i < s->count; i++)
        if (driver_suspects(d, &s->one[i]))
            return true;
    return false;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of those that matter: the same masters have the same. */
static uint64_t hash_of(const struct driver *d, const struct lineages *s)
{
    uint64_t ids[LINEAGES_MAX];
    size_t n = 0;
    for (unsigned i = 0; i < s->count && n < LINEAGES_MAX; i++)
        if (fence_matters(d->o->nodes, &d->view, &s->one[i]))
            ids[n++] = s->one[i].id;
    qsort(ids, n, sizeof(ids[0]), by_id);
    return XXH3_64bits(ids, n * sizeof(ids[0]));
}

enum err driver_reload_trusted(struct driver *d, struct error *e)
{
    enum err code = fence_load(&d->fence, &d->next, e);
    if (code == ERR_NOT_FOUND || (code == ERR_OK && d->next.incarnation != d->view.incarnation))
        return error_set(e, ERR_FENCED, "the view is no longer in Redis");
    /* One that went back must not be trusted for what was done under the later one. */
    if (code == ERR_OK && (d->next.epoch < d->view.epoch || d->next.epoch > d->view.epoch + 1 ||
                           d->next.trusted_ms < d->view.trusted_ms || d->next.recovery == RECOVERY_DUE))
        return error_set(e, ERR_FENCED, "the view has changed since epoch %" PRIu64, d->view.epoch);
    if (code == ERR_OK) {
        d->view.trusted = d->next.trusted;
        d->view.trusted_ms = d->next.trusted_ms;
    }
    return code;
}

/* *@suspect: there is a master that the filter does not trust. d->lineages is the hash of those that are
 * there. */
static enum err look(struct driver *d, bool *suspect, struct error *e)
{
    struct lineages now;
    lineages_init(&now);
    d->lineages_at = clock_mono_us();
    enum err code = fence_lineages(&d->fence, &d->view, &now, e);
    *suspect = code == ERR_OK && driver_suspects_any(d, &now);
    if (*suspect) {
        code = driver_reload_trusted(d, e);
        *suspect = code == ERR_OK && driver_suspects_any(d, &now);
    }
    if (code == ERR_OK)
        d->lineages = hash_of(d, &now);
    lineages_fini(&now);
    return code;
}

static enum err ask_to_heal(struct driver *d, struct error *e)
{
    d->request = REQUEST_HEAL;
    return error_set(e, ERR_CANCELLED,
                     "a Redis master has failed over or was restarted: its last writes may be lost");
}

static bool heeds(const struct driver *d)
{
    return d->o->sourced && !d->view.log && step_asked(d->step, REQUEST_HEAL) != STEP_COUNT &&
           clock_mono_us() >= d->not_healed_until;
}

enum err driver_look_at_masters(struct driver *d, struct error *e)
{
    struct error ignored;
    bool suspect = false;
    if (!heeds(d) || clock_mono_us() - d->lineages_at < HEAL_LOOK_US)
        return ERR_OK;
    /* One that does not answer is met by whoever needs it. */
    return look(d, &suspect, &ignored) == ERR_OK && suspect ? ask_to_heal(d, e) : ERR_OK;
}

enum err driver_same_masters(struct driver *d, struct error *e)
{
    bool suspect = false;
    if (!heeds(d))
        return ERR_OK;
    enum err code = look(d, &suspect, e);
    return code == ERR_OK && suspect ? ask_to_heal(d, e) : code;
}

enum err driver_find_masters(struct driver *d, bool *heal, struct error *e)
{
    *heal = false;
    if (!d->o->sourced || d->view.log)
        return ERR_OK;
    enum err code = look(d, heal, e);
    if (code == ERR_OK && d->record.settled && d->record.lineages != d->lineages) {
        log_info("checkpoint_outdated",
                 "filter=%s note=\"masters are others than those that it was written to: the "
                 "scan begins again\"",
                 log_quote(d->o->filter));
        d->record.generation = 0;
    }
    return code;
}
