/* SPDX-License-Identifier: MIT */
/* Which masters the view of a filter trusts, as an event loop looks it up, and what is done when one is met
 * that it does not. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/catalog_internal.h"

enum { PLACES_MIN = 8, SUSPECT_EVERY_MS = 250 };

bool shared_view_derive_trust(struct shared_view *view)
{
    const struct trusted *t = &view->v.trusted;
    uint64_t places = PLACES_MIN;
    if (!t->known)
        return true;
    while (places < 2 * (uint64_t)t->count)
        places *= 2;
    view->trusted = calloc(places, sizeof(*view->trusted));
    view->trusted_mask = places - 1;
    for (unsigned i = 0; view->trusted != NULL && i < t->count; i++) {
        uint64_t at = t->id[i] & view->trusted_mask;
        while (view->trusted[at] != 0)
            at = (at + 1) & view->trusted_mask;
        view->trusted[at] = t->id[i];
    }
    return view->trusted != NULL;
}

bool catalog_home_moved(const struct catalog *c, const struct shared_view *view)
{
    uint64_t home = store_server(c->store, NODE_HOME);
    return home != 0 && view->home != 0 && home != view->home;
}

bool catalog_trusts(const struct catalog *c, const struct shared_view *view)
{
    return !catalog_home_moved(c, view) && shared_view_trusts(view, store_replying(c->store));
}

bool catalog_same_trust(const struct trusted *a, const struct trusted *b)
{
    return a->known == b->known && a->count == b->count &&
           memcmp(a->id, b->id, a->count * sizeof(a->id[0])) == 0;
}

void catalog_report_suspect(struct catalog_filter *f)
{
    const struct catalog_options *o = &f->catalog->options;
    uint64_t now = clock_mono_us();
    if (f->suspected_at != 0 && now - f->suspected_at < SUSPECT_EVERY_MS * 1000)
        return;
    f->suspected_at = now;
    /* Of shards that are made anew the keeper knows by the view. */
    if (o->on_suspect != NULL && (f->view == NULL || view_unsure(&f->view->v) == 0))
        o->on_suspect(o->arg, f->name, f->name_length);
    if (!f->loading)
        catalog_refresh(f->catalog, f->name, f->name_length);
}
