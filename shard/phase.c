/* SPDX-License-Identifier: MIT */
#include "shard/phase.h"

#include <assert.h>
#include <string.h>

#define TO(phase) (1u << (phase))

static const struct phase_row rows[PHASE_COUNT] = {
    /* Into itself: shards that are lost are made anew. */
    [PHASE_STEADY] = {"STEADY", false, OPENING_NEVER,
                      TO(PHASE_STEADY) | TO(PHASE_BUILDING) | TO(PHASE_OVERFLOW_OPEN),
                      "one generation is read and written"},
    [PHASE_BUILDING] = {"BUILDING", true, OPENING_EITHER,
                        TO(PHASE_BUILDING) | TO(PHASE_SWITCHED) | TO(PHASE_STEADY) | TO(PHASE_OVERFLOW),
                        "the alternate generation is being built; adds go to both"},
    [PHASE_SWITCHED] = {"SWITCHED", true, OPENING_EITHER,
                        TO(PHASE_SWITCHED) | TO(PHASE_BUILDING) | TO(PHASE_STEADY) | TO(PHASE_OVERFLOW),
                        "the new generation is read; adds still go to both"},
    [PHASE_OVERFLOW_OPEN] = {"OVERFLOW_OPEN", false, OPENING_ALWAYS, TO(PHASE_OVERFLOW),
                             "a new layer is read by all before any write to it"},
    [PHASE_OVERFLOW] = {"OVERFLOW", false, OPENING_NEVER, TO(PHASE_BUILDING) | TO(PHASE_OVERFLOW_OPEN),
                        "several layers are read, the newest is written"},
};

const struct phase_row *phase_row(enum phase phase)
{
    assert(phase < PHASE_COUNT);
    return &rows[phase];
}

bool phase_may_follow(enum phase from, enum phase to)
{
    return (phase_row(from)->next & TO(to)) != 0;
}

enum phase phase_alone(unsigned layers)
{
    return layers > 1 ? PHASE_OVERFLOW : PHASE_STEADY;
}

bool phase_parse(const char *name, size_t length, enum phase *out)
{
    for (int i = 0; i < PHASE_COUNT; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0) {
            *out = (enum phase)i;
            return true;
        }
    return false;
}
