/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_JOURNAL_H
#define TESTS_FAULT_JOURNAL_H
/* What was done to the servers, and when: the last entries are kept, for the report of a lost key. Any
 * thread. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/error.h"

/* Print every entry as it comes, too. */
void journal_verbose(bool on);

/* Microseconds since the first call. */
uint64_t journal_now(void);

void journal_note(const char *format, ...) PRINTF_LIKE(1, 2);

/* Entries since @since (journal_now()), and the few before it. */
void journal_print(FILE *to, uint64_t since);
#endif
