/* SPDX-License-Identifier: MIT */
#ifndef DEPLOY_CODES_H
#define DEPLOY_CODES_H
/* Short-link codes: seven base62 characters, a scramble of a counter. Pure. */
#include <stdint.h>

enum { CODE_LENGTH = 7 };

/* 62^7: how many codes there are. */
#define CODE_COUNT UINT64_C(3521614606208)

struct code {
    char text[CODE_LENGTH + 1]; /* NUL-terminated */
};

/* The code of @counter (modulo CODE_COUNT). Different counters below CODE_COUNT have different codes, and
 * neighbours look nothing alike. */
struct code code_of(uint64_t counter);
#endif
