/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_LOG_VIEW_INTERNAL_H
#define SHARD_VIEW_LOG_VIEW_INTERNAL_H
/* What log_view_parse.c (single fields of a view) and log_view_families.c (fields for each lane, generation
 * or writer) share. log_view.c writes a view, and says what it means. */
#include "shard/view/log_view.h"

/* --- log_view_parse.c --- */
/* "<number>:<era>" */
MUST_CHECK bool log_view_parse_lane(struct log_lane *out, const char *text, size_t length);

/* --- log_view_families.c --- */
/* Parse @f into a struct log_view, if its name is that of a family; else skip it. */
MUST_CHECK enum err log_view_parse_family(void *out, const struct view_field *f, struct error *e);
#endif
