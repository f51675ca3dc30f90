/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_INTERNAL_H
#define SHARD_VIEW_INTERNAL_H
/* What view.c (formats 1 and 2) and view_log.c (format 3) share. */
#include "shard/view.h"

MUST_CHECK enum err view_parse_log(struct view *out, const struct view_field *fields, size_t count,
                                   struct error *e);

/* The field @name is damaged: @why, or, where that is empty, what was expected, and its beginning. ERR_PARSE.
 */
enum err view_refuse(struct error *e, const char *name, const char *expected, const struct view_field *found,
                     const char *why);

/* Fields that both have. False: the value is none; e->text may say why. */
bool view_parse_incarnation(struct view *v, const char *value, size_t length, struct error *e);
bool view_parse_current(struct view *v, const char *value, size_t length, struct error *e);
bool view_parse_generation0(struct view *v, const char *value, size_t length, struct error *e);
bool view_parse_generation1(struct view *v, const char *value, size_t length, struct error *e);
bool view_parse_last_generation(struct view *v, const char *value, size_t length, struct error *e);
bool view_parse_expansion(struct view *v, const char *value, size_t length, struct error *e);
bool view_parse_sourced(struct view *v, const char *value, size_t length, struct error *e);
bool view_parse_expire_at(struct view *v, const char *value, size_t length, struct error *e);
bool view_parse_trusted_ms(struct view *v, const char *value, size_t length, struct error *e);
#endif
