/* SPDX-License-Identifier: MIT */
/* Views that went back: the node of a filter's home keys came back with older data.
 *
 * The happy path is: this process, or another coordinator, remembers the latest view and puts it back; under
 * the mutex it is reconciled with the shards (shard/reconcile.h). Possible failure modes are: nobody
 * remembers it (after a while the stored one is reconciled as it is), a job holds the mutex (it finds its
 * epoch gone and stops), this process dies between any two steps (the next survey, of any coordinator, finds
 * the same). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/admin.h"
#include "service/keeper_internal.h"
#include "shard/latest.h"
#include "shard/reconcile.h"

/* Beyond two looks of every coordinator's keeper: whoever remembers a later view has put it back by then. */
enum { PATIENCE_US = 1000 * 1000 };

static bool reload(struct keeper *k, struct error *e)
{
    return fence_load(&k->fence, &k->view, e) == ERR_OK;
}

/* Put back what this process remembers. True where something was. */
static bool put_back(struct keeper *k, struct watched *w)
{
    struct error e;
    bool done = false;
    if (!watch_later_view(w, &k->view, &k->scratch))
        return false;
    enum err code = fence_put_back(&k->fence, &k->scratch, &done, &e);
    if (code != ERR_OK)
        log_warn("view_not_restored", "filter=%s code=%s error=%s", log_quote(w->name), error_name(code),
                 log_quote(e.text));
    if (done)
        log_error("view_restored", "filter=%s epoch=%" PRIu64 " stored=%" PRIu64, log_quote(w->name),
                  k->scratch.epoch, k->view.epoch);
    return true;
}

/* Where no shard has survived there is nothing to put back: whoever makes the filter anew loses no more. */
bool keeper_put_back_gone(struct keeper *k, struct watched *w)
{
    struct error e;
    struct reconcile_evidence found = {0};
    bool done = false;
    if (!watch_remembers(w, &k->scratch))
        return false;
    k->fence.names.incarnation = k->scratch.incarnation;
    enum err code = fence_weigh(&k->fence, &k->scratch, &found, &e);
    if (code == ERR_OK && found.top_of[0] == 0 && found.top_of[1] == 0)
        return false;
    if (code == ERR_OK)
        code = fence_put_back_gone(&k->fence, &k->scratch, &done, &e);
    if (code != ERR_OK)
        log_warn("view_not_restored", "filter=%s code=%s error=%s", log_quote(w->name), error_name(code),
                 log_quote(e.text));
    if (done)
        log_error("view_restored", "filter=%s epoch=%" PRIu64 " stored=0", log_quote(w->name),
                  k->scratch.epoch);
    return done;
}

/* Under the mutex. */
static enum err reconcile_view(struct keeper *k, struct watched *w, const char *mutex, struct error *e)
{
    struct reconcile_evidence found;
    uint64_t lost = 0;
    enum err code = fence_load(&k->fence, &k->view, e);
    if (code == ERR_OK)
        code = fence_weigh(&k->fence, &k->view, &found, e);
    if (code != ERR_OK || !reconcile_is_due(&k->view, &found))
        return code;
    reconcile_decide(&k->view, &found, &k->scratch);
    code = fence_reconcile(&k->fence, &k->view, &k->scratch, mutex, e);
    if (code != ERR_OK)
        return code;
    log_error("view_reconciled",
              "filter=%s stored=%" PRIu64 " found=%" PRIu64 " epoch=%" PRIu64 " generation=%" PRIu64
              " note=\"the last writes may be lost; until the filter is healed no key is reported absent\"",
              log_quote(w->name), k->view.epoch, found.top, k->scratch.epoch,
              view_current(&k->scratch)->number);
    k->view = k->scratch;
    code = fence_complete(&k->fence, &k->view, &lost, e);
    if (code == ERR_OK)
        log_info("reconcile_done", "filter=%s epoch=%" PRIu64 " lost_shards=%" PRIu64, log_quote(w->name),
                 k->view.epoch, lost);
    return code;
}

static void reconcile(struct keeper *k, struct watched *w)
{
    struct error e;
    struct mutex *mutex = NULL;
    const struct mutex_options options = admin_mutex_options(k->service, k->config, w->name, w->length);
    enum err code = mutex_acquire(&mutex, &options, &e);
    if (code == ERR_OK)
        code = reconcile_view(k, w, mutex_value(mutex), &e);
    mutex_release(mutex);
    if (code == ERR_OK)
        w->behind_since = 0;
    else
        keeper_problem(w, e.text); /* also where a job has the mutex still: it stops by itself */
}

/* Somebody else may remember more than what is stored. */
static bool is_patient(const struct keeper *k, struct watched *w)
{
    uint64_t now = clock_mono_us();
    if (w->behind_since == 0)
        w->behind_since = now;
    return now - w->behind_since < 2 * k->config->check_interval_ms * 1000 + PATIENCE_US;
}

/* Shards that lie under names of earlier epochs only, on masters that are suspect: healing moves them, and
 * adds what they lack. Not before nothing is found under a later epoch: a view that went back says of the
 * wrong nodes that they have nothing of the filter. */
static bool is_healed(struct keeper *k, struct watched *w, const struct reconcile_evidence *found)
{
    return k->view.sourced && view_current(&k->view)->built && k->view.recovery != RECOVERY_DUE &&
           !reconcile_knows_less(&k->view, found) && keeper_has_suspects(k, w);
}

bool keeper_look_for_later(struct keeper *k, struct watched *w, bool look)
{
    struct error e;
    struct reconcile_evidence found;
    if (put_back(k, w)) {
        look = true;
        if (!reload(k, &e)) {
            keeper_problem(w, e.text);
            return true;
        }
    }
    if (!look && k->view.recovery != RECOVERY_DUE)
        return false;
    uint64_t epoch = k->view.epoch, incarnation = k->view.incarnation;
    /* A later view is published before its shards are renamed: one that is the same after the survey was not
     * just overtaken. */
    bool known = fence_weigh(&k->fence, &k->view, &found, &e) == ERR_OK && reload(k, &e);
    if (!known)
        keeper_problem(w, e.text);
    if (!known || k->view.epoch != epoch || k->view.incarnation != incarnation) {
        watch_give_back_doubt(w);
        return true;
    }
    if (!reconcile_is_due(&k->view, &found) || is_healed(k, w, &found)) {
        w->behind_since = 0;
        if (!view_unfenced(&k->view))
            watch_note_sure(w, &k->view);
        return false;
    }
    keeper_problem(
        w, "its view is older than its shards: the metadata node lost data; the view is being restored");
    if (!reconcile_knows_less(&k->view, &found) || !is_patient(k, w))
        reconcile(k, w);
    return true;
}

bool keeper_look_behind_suspects(struct keeper *k, struct watched *w)
{
    uint64_t now = k->view.incarnation + k->view.epoch + keeper_masters_sum(k);
    if (now == w->surveyed)
        return false;
    if (keeper_look_for_later(k, w, true))
        return true;
    w->surveyed = now;
    return false;
}

/* --- what masters have noted --- */

enum { NOTE_EVERY_US = 30 * 1000 * 1000 };

bool keeper_learn_latest(struct keeper *k, struct watched *w)
{
    bool answers[GENERATION_NODES_MAX];
    struct view_stamp latest = {0};
    const struct view_stamp stored = view_stamp_of(&k->view);
    uint64_t now = clock_mono_us(), hash = stored.incarnation + stored.epoch + stored.trusted_ms + k->slept;
    if (!k->masters_known || k->service->nodes.cluster != NULL)
        return false;
    for (unsigned i = 0; i < k->service->nodes.count; i++) {
        uint64_t id = 0;
        for (unsigned j = 0; j < k->masters.count; j++)
            if (strcmp(k->masters.one[j].node, k->service->nodes.node[i].name) == 0)
                id = k->masters.one[j].id;
        answers[i] = id != 0;
        hash += id;
    }
    if (hash == w->noted && now - w->noted_at < NOTE_EVERY_US)
        return false;
    w->noted = hash;
    w->noted_at = now;
    latest_note(&k->fence, &k->view, answers, &latest);
    watch_learn(w, &latest);
    return view_stamp_is_older(&stored, &latest);
}
