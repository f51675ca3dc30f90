/* SPDX-License-Identifier: MIT */
#ifndef BASE_INFO_H
#define BASE_INFO_H
/* Lines of Redis' INFO. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of the first line "@name:value", of *@value_length bytes within @text; NULL: there is none. */
const char *info_value(const char *text, size_t length, const char *name, size_t *value_length);
/* True where that line is there and has this very value. */
bool info_is(const char *text, size_t length, const char *name, const char *value);
/* The first INFO_ID_DIGITS of a replication id of 40 hexadecimal digits; 0: there is none. */
enum { INFO_ID_DIGITS = 16 };
uint64_t info_id(const char *text, size_t length, const char *name);
/* The replication id of a master, likewise; 0: it is none. */
uint64_t info_master_id(const char *text, size_t length);
#endif
