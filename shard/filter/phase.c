/* SPDX-License-Identifier: MIT */
#include "shard/filter/phase.h"

#include <assert.h>

static const struct phase_row rows[PHASE_COUNT] = {[PHASE_STEADY] = {"STEADY"},
                                                   [PHASE_BUILDING] = {"BUILDING"},
                                                   [PHASE_SWITCHED] = {"SWITCHED"},
                                                   [PHASE_OVERFLOW] = {"OVERFLOW"}};

const struct phase_row *phase_row(enum phase phase)
{
    assert(phase < PHASE_COUNT);
    return &rows[phase];
}
