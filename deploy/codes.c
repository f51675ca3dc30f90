/* SPDX-License-Identifier: MIT */
#include "deploy/codes.h"

__extension__ typedef unsigned __int128 wide;

/* A bijection of [0, CODE_COUNT): the factor shares no prime with 62, so multiplication can be undone. */
static uint64_t affine(uint64_t x, uint64_t factor, uint64_t offset)
{
    return (uint64_t)(((wide)x * factor + offset) % CODE_COUNT);
}

_Static_assert(UINT64_C(2176477521937) % 2 != 0 && UINT64_C(2176477521937) % 31 != 0,
               "factor must be coprime to 62");
_Static_assert(UINT64_C(1345137084273) % 2 != 0 && UINT64_C(1345137084273) % 31 != 0,
               "factor must be coprime to 62");

/* Turning the digits round between two multiplications brings the high ones, which mix well, down to where
 * the low ones were, which do not. */
static uint64_t reverse_digits(uint64_t x)
{
    uint64_t reversed = 0;
    for (int i = 0; i < CODE_LENGTH; i++) {
        reversed = reversed * 62 + x % 62;
        x /= 62;
    }
    return reversed;
}

struct code code_of(uint64_t counter)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t x = affine(counter % CODE_COUNT, UINT64_C(2176477521937), UINT64_C(271828182845));
    x = affine(reverse_digits(x), UINT64_C(1345137084273), UINT64_C(314159265358));
    struct code code = {{0}};
    for (int i = 0; i < CODE_LENGTH; i++) {
        code.text[i] = digits[x % 62];
        x /= 62;
    }
    return code;
}
