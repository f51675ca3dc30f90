/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_LOG_VIEW_INTERNAL_H
#define SHARD_VIEW_LOG_VIEW_INTERNAL_H
/* What log_view_parse.c (a view is read: fields of which there is one) and log_view_families.c (fields of
 * which there are several: one for each lane, generation or writer) share. log_view.c stores a view, and says
 * what it means. */
#include "shard/view/log_view.h"

/* --- log_view_parse.c --- */
bool log_view_is_bit(const char *value, size_t length);
/* "<number>:<era>" */
MUST_CHECK bool log_view_parse_lane(struct log_lane *out, const char *text, size_t length);
/* ERR_PARSE: the text names the field, with its value and @why ("": that it is damaged says all). */
enum err log_view_damaged(struct error *e, const struct view_field *f, const char *why);

/* --- log_view_families.c --- */
/* Read @f if its name is that of one of several; *@code: how that went. False: it is not. */
MUST_CHECK bool log_view_parse_family(struct log_view *v, const struct view_field *f, enum err *code,
                                      struct error *e);
#endif
