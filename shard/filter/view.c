/* SPDX-License-Identifier: MIT */
#include "shard/filter/view.h"

#include <stddef.h>

const char *phase_name(enum phase phase)
{
    static const char *const names[] = {[PHASE_STEADY] = "STEADY",
                                        [PHASE_BUILDING] = "BUILDING",
                                        [PHASE_SWITCHED] = "SWITCHED",
                                        [PHASE_OVERFLOW] = "OVERFLOW"};
    return names[phase];
}

const struct generation *view_current(const struct view *v)
{
    return &v->slot[v->current];
}

const struct generation *view_alternate(const struct view *v)
{
    const struct generation *g = &v->slot[1 - v->current];
    return g->number == 0 ? NULL : g;
}

/* A later generation beside the current one is being built, or was current before a rollback. An earlier one
 * was current before the cutover. */
enum phase view_phase(const struct view *v)
{
    const struct generation *current = view_current(v), *other = view_alternate(v);
    if (other == NULL)
        return current->layer_count > 1 ? PHASE_OVERFLOW : PHASE_STEADY;
    return other->number > current->number ? PHASE_BUILDING : PHASE_SWITCHED;
}
