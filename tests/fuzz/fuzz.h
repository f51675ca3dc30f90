/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H
/* One target a file: LLVMFuzzerTestOneInput() ends the process where a promise is broken. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* assert() that a release build keeps. */
#define fuzz_check(condition)                                                                                \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                            \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)
#endif
