/* SPDX-License-Identifier: MIT */
#include "shard/control/idle.h"

enum idle_action idle_decide(const struct idle_facts *f, uint64_t *next)
{
    uint64_t quiet = f->now > f->asked_at ? f->now - f->asked_at : 0;
    *next = IDLE_NEVER;
    if (f->rest == 0 || f->is_needed)
        return IDLE_BUSY;
    if (quiet < f->rest) {
        *next = f->asked_at + f->rest;
        return IDLE_BUSY;
    }
    if (f->resident_bytes >= f->dear) {
        *next = f->tailed_at + f->tail_every;
        return f->now >= *next ? IDLE_TAIL : IDLE_REST;
    }
    if (f->resident_bytes == 0 || f->resident_idle == 0)
        return IDLE_REST;
    *next = f->asked_at + f->resident_idle;
    return f->now >= *next ? IDLE_DROP : IDLE_REST;
}
