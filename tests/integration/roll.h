/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_ROLL_H
#define TESTS_INTEGRATION_ROLL_H
/* Reads TB.COORDINATORS about the daemons of a fixture. */
#include "tests/integration/fixture.h"

/* A field of coordinator @d, as coordinator @by lists it for @filter (NULL: for none); "" if there is no such
 * field, no such coordinator, or no answer. The text is in one of a few static buffers; an array is joined
 * with commas, null is "null". */
const char *roll_field(struct fixture *f, unsigned by, unsigned d, const char *filter, const char *field);

/* Wait until the field is @value, for @ms at most; else the test fails and shows the last value. */
void roll_wait(struct fixture *f, unsigned by, unsigned d, const char *filter, const char *field,
               const char *value, unsigned ms);

/* How many coordinators are listed; -1: no answer. */
int roll_count(struct fixture *f, unsigned by);
#endif
