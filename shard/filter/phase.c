/* SPDX-License-Identifier: MIT */
#include "shard/filter/phase.h"

#include <assert.h>

static const struct phase_row rows[PHASE_COUNT] = {
    [PHASE_STEADY] = {"STEADY", "one generation, of one layer"},
    [PHASE_BUILDING] = {"BUILDING", "another generation is being built"},
    [PHASE_SWITCHED] = {"SWITCHED",
                        "the new generation is read; the one before it is kept, for the way back"},
    [PHASE_OVERFLOW] = {"OVERFLOW", "one generation, of several layers"},
};

const struct phase_row *phase_row(enum phase phase)
{
    assert(phase < PHASE_COUNT);
    return &rows[phase];
}

enum phase phase_alone(unsigned layers)
{
    return layers > 1 ? PHASE_OVERFLOW : PHASE_STEADY;
}
