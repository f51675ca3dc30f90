/* SPDX-License-Identifier: MIT */
/* The keeper's look at masters: whether a failover or a restart may have lost what tags do not show.
 *
 * The happy path is: every master that may hold something of the filter is of a lineage that the filter
 * trusts. What is trusted grows where nothing can be missing: a master that is empty, a node that has nothing
 * of the filter, a server that drew a new lineage while it ran. Possible failure modes are: a master of
 * another lineage (the filter is degraded until it is healed or an operator accepts), one that does not
 * answer (nothing is said of it), a view of an older version (trusts all, until all masters answer and are
 * written down), another coordinator that writes at the same time (the next look sees it). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/keeper_internal.h"
#include "service/watch.h"

enum {
    MASTERS_EVERY_US = 100 * 1000 /* looks need not come closer than this */
};

/* --- who the masters are --- */

static void look_for_heir(struct keeper *k, const struct lineage *was, const struct lineage *now)
{
    if (was->id == now->id || !lineage_goes_on(was, now))
        return;
    k->heir[k->heir_count++ % KEEPER_HEIRS] = (struct keeper_heir){.from = was->id, .id = now->id};
    log_info("replication_id_renewed", "node=%s from=%016" PRIx64 " to=%016" PRIx64, now->node, was->id,
             now->id);
}

/* Whoever was a replica, or had its slots taken, is forgotten: others took its writes meanwhile. One that
 * does not answer may go on later. */
static void remember_masters(struct keeper *k)
{
    struct lineages next;
    lineages_init(&next);
    for (unsigned i = 0; i < k->masters.count; i++) {
        const struct lineage *now = &k->masters.one[i];
        const struct lineage *was = lineages_of_node(&k->known, now->node);
        const struct lineage *keep = now->id != 0 ? now : now->run == 0 ? was : NULL;
        if (was != NULL && now->id != 0)
            look_for_heir(k, was, now);
        if (keep != NULL && lineages_add(&next, keep, NULL) != ERR_OK)
            log_error("out_of_memory", "part=controller note=\"a master is not remembered\"");
    }
    lineages_fini(&k->known);
    k->known = next;
}

static void note_outage(struct keeper *k)
{
    bool away = !k->masters_known;
    for (unsigned i = 0; i < k->masters.count; i++)
        away |= k->masters.one[i].id == 0;
    k->outages += k->master_away && !away;
    k->master_away = away;
}

void keeper_look_at_masters(struct keeper *k)
{
    struct error e = {""};
    uint64_t now = clock_mono_us();
    if (k->masters_at != 0 && now - k->masters_at < MASTERS_EVERY_US)
        return;
    k->masters_at = now;
    enum err code = link_look_at_lineages(k->link, &k->known, &k->masters, &e);
    k->masters_known = code == ERR_OK;
    if (code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT)
        log_warn("masters_unknown", "code=%s error=%s", error_name(code), log_quote(e.text));
    note_outage(k);
    if (k->masters_known)
        remember_masters(k);
}

/* --- whom the filter trusts --- */

static bool trusts(const struct keeper *k, const struct trusted *t, uint64_t id)
{
    unsigned kept = k->heir_count < KEEPER_HEIRS ? k->heir_count : KEEPER_HEIRS;
    for (unsigned i = 0; i <= kept; i++) {
        if (trusted_contains(t, id))
            return true;
        if (i == kept)
            break;
        const struct keeper_heir *h = &k->heir[(k->heir_count - 1 - i) % KEEPER_HEIRS]; /* the newest first */
        if (h->id == id)
            id = h->from;
    }
    return false;
}

struct findings {
    unsigned away, suspects, slots;
    bool grows; /* somebody can be trusted who is not */
    struct buffer text;
};

static void find(struct keeper *k, struct findings *f)
{
    const struct trusted *t = &k->view.trusted;
    const struct nodes *nodes = &k->service->nodes;
    for (unsigned i = 0; i < k->masters.count; i++) {
        const struct lineage *m = &k->masters.one[i];
        bool matters = fence_matters(nodes, &k->view, m);
        f->away += matters && m->id == 0;
        if (m->id == 0 || (t->known && trusted_contains(t, m->id)))
            continue;
        if (!matters) {
            f->grows |= nodes->cluster == NULL || m->empty;
        } else if (trusts(k, t, m->id)) {
            f->grows = true;
        } else {
            f->slots += m->slots;
            buffer_printf(&f->text, "%s%s", f->suspects++ > 0 ? ", " : "", m->node);
            if (nodes->cluster != NULL)
                buffer_printf(&f->text, " (%u slots)", m->slots);
        }
    }
}

/* Those that are trusted, as far as there is room, and all who can be without a doubt. */
static enum err extend(struct keeper *k, struct error *e)
{
    struct lineages next;
    const struct nodes *nodes = &k->service->nodes;
    lineages_init(&next);
    enum err code = ERR_OK;
    if (k->view.trusted.known && k->view.trusted.count + k->masters.count <= LINEAGES_MAX)
        code = trusted_lineages(&k->view.trusted, &next, e);
    for (unsigned i = 0; i < k->masters.count && code == ERR_OK; i++) {
        const struct lineage *m = &k->masters.one[i];
        bool matters = fence_matters(nodes, &k->view, m);
        if (m->id != 0 && (matters || nodes->cluster == NULL || m->empty))
            code = lineages_add(&next, m, e);
    }
    if (code == ERR_OK)
        code = fence_trust_instead(&k->fence, &k->view, &next, e);
    lineages_fini(&next);
    return code;
}

/* A suspect of a cluster that gives slots away gives what it lacks to masters that are trusted: trust none.
 */
static void look_at_slots(struct keeper *k, struct watched *w, const struct findings *f)
{
    struct lineages none;
    struct error e;
    if (f->away > 0)
        return;
    bool fewer = f->suspects > 0 && f->slots < w->suspect_slots;
    if (f->slots > w->suspect_slots || f->suspects == 0)
        w->suspect_slots = f->slots;
    if (!fewer || k->view.trusted.count == 0)
        return;
    lineages_init(&none);
    if (fence_trust_anew(&k->fence, &k->view, &none, &e) == ERR_OK)
        log_warn("untrusted_slots",
                 "filter=%s note=\"slots leave an untrusted master: no master is trusted until the filter "
                 "is healed\"",
                 log_quote(w->name));
    lineages_fini(&none);
}

bool keeper_trust_none(struct keeper *k, struct watched *w)
{
    struct lineages none;
    struct error e;
    lineages_init(&none);
    enum err code = fence_trust_anew(&k->fence, &k->view, &none, &e);
    lineages_fini(&none);
    if (code == ERR_OK)
        log_error("trust_went_back",
                  "filter=%s epoch=%" PRIu64
                  " note=\"the metadata node has an older list of trusted masters: none is "
                  "trusted until the filter is healed\"",
                  log_quote(w->name), k->view.epoch);
    else
        keeper_problem(w, e.text);
    return code == ERR_OK && fence_load(&k->fence, &k->view, &e) == ERR_OK;
}

/* Another server has taken home's place, and adds are acknowledged there: the first one, should it come back,
 * must not pass for the same. Once for each such server. */
static void tell_of_other_home(struct keeper *k, struct watched *w)
{
    const struct lineage *home = lineages_of_node(&k->known, k->service->nodes.node[NODE_HOME].name);
    struct lineages same;
    struct error e;
    if (k->service->nodes.cluster != NULL || home == NULL || home->id == w->suspect_home ||
        trusts(k, &k->view.trusted, home->id))
        return;
    lineages_init(&same);
    enum err code = trusted_lineages(&k->view.trusted, &same, &e);
    if (code == ERR_OK)
        code = fence_trust_anew(&k->fence, &k->view, &same, &e);
    if (code == ERR_OK)
        code = fence_load(&k->fence, &k->view, &e);
    if (code == ERR_OK) {
        w->suspect_home = home->id;
        watch_remember(w, &k->view);
        (void)keeper_learn_latest(k, w);
    }
    lineages_fini(&same);
}

static void note(struct keeper *k, struct watched *w, struct findings *f)
{
    const char *text = buffer_text(&f->text);
    bool was = w->note.suspects[0] != '\0';
    if (f->suspects > 0 && strncmp(w->note.suspects, text, sizeof(w->note.suspects) - 1) != 0)
        log_warn("untrusted_masters",
                 "filter=%s epoch=%" PRIu64
                 " phase=%s masters=%s note=\"they were promoted or restarted and may lack "
                 "keys; no key of theirs is reported absent\"",
                 log_quote(w->name), k->view.epoch, phase_row(k->view.phase)->name, log_quote(text));
    else if (f->suspects == 0 && was)
        log_info("healthy", "filter=%s epoch=%" PRIu64 " phase=%s", log_quote(w->name), k->view.epoch,
                 phase_row(k->view.phase)->name);
    watch_note_suspects(w, text, k->view.trusted_ms);
}

bool keeper_has_suspects(struct keeper *k, struct watched *w)
{
    struct findings f = {0};
    struct error e = {""};
    const bool known = k->view.trusted.known;
    if (!k->masters_known)
        return w->note.suspects[0] != '\0';
    find(k, &f);
    if (f.suspects > 0 &&
        w->note.suspects[0] == '\0') { /* the view may be newer than the look at the masters */
        buffer_fini(&f.text);
        f = (struct findings){0};
        k->masters_at = 0;
        keeper_look_at_masters(k);
        find(k, &f);
    }
    if (known)
        look_at_slots(k, w, &f);
    if (known && f.suspects > 0)
        tell_of_other_home(k, w);
    bool write = known ? f.suspects == 0 && f.grows : f.away == 0;
    enum err code = write ? extend(k, &e) : ERR_OK;
    if (code != ERR_OK && code != ERR_CONFLICT && code != ERR_FENCED)
        log_warn("masters_not_trusted", "filter=%s code=%s error=%s", log_quote(w->name), error_name(code),
                 log_quote(e.text));
    if (code == ERR_OK && write)
        log_info("masters_trusted", "filter=%s masters=%u%s", log_quote(w->name), k->view.trusted.count,
                 known ? "" : " note=\"its view is of an older version\"");
    if (f.suspects > 0 || f.away == 0 || w->note.suspects[0] == '\0')
        note(k, w, &f);
    buffer_fini(&f.text);
    return w->note.suspects[0] != '\0';
}

void keeper_heal(struct keeper *k, struct watched *w, bool sourced)
{
    char text[sizeof(w->note.problem)];
    (void)k;
    if (sourced)
        return;
    (void)snprintf(text, sizeof(text),
                   "masters were promoted or started anew and may lack keys: %s; there is no source to add "
                   "them from, so "
                   "nothing is reported absent there until TB.TRUST (twinbloom trust) says that nothing is "
                   "missing, or "
                   "the filter is deleted and restored from a dump",
                   w->note.suspects);
    keeper_problem(w, text);
}
