/* SPDX-License-Identifier: MIT */
#ifndef BASE_INFO_H
#define BASE_INFO_H
/* Lines of the reply of Redis' INFO. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of the first line "@name:value", *@value_length bytes within @text; NULL: there is no such
 * line. */
const char *info_value(const char *text, size_t length, const char *name, size_t *value_length);
/* True if the line exists and has this value. */
bool info_is(const char *text, size_t length, const char *name, const char *value);
/* The first INFO_ID_DIGITS of the 40 hexadecimal digits of a replication id, as a number; 0: there is no
 * id. */
enum { INFO_ID_DIGITS = 16 };
uint64_t info_id(const char *text, size_t length, const char *name);
/* The replication id of a master, as info_id(); 0: the node is not a master. */
uint64_t info_master_id(const char *text, size_t length);
#endif
