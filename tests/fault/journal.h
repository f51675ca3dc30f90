/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_JOURNAL_H
#define TESTS_FAULT_JOURNAL_H
/* The actions on the servers, with their times. The last entries are kept for the report of a lost key. Any
 * thread. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/error.h"

/* Print every entry at once, too. */
void journal_verbose(bool on);

/* Microseconds since the first call of it. */
uint64_t journal_now(void);

void journal_note(const char *format, ...) PRINTF_LIKE(1, 2);

/* Print the entries since @since (journal_now()), and the few before it. */
void journal_print(FILE *to, uint64_t since);
#endif
