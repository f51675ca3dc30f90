/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_BUILD_INTERNAL_H
#define SHARD_GENERATIONS_BUILD_INTERNAL_H
/* What build.c (a place in the view, shards, the cutover), build_lanes.c (lanes, and their entries) and
 * build_record.c (the record) share. */
#include "shard/generations/build.h"

/* --- build.c --- */
/* Begin a script of the view and the record; its arguments; run it. */
void builder_script(struct builder *b, const char *text);
void builder_add_token(struct builder *b);
void builder_add_text(struct builder *b, const struct buffer *text);
MUST_CHECK enum err builder_run(struct builder *b, long long *result, struct error *e);
/* Note in which history the metadata node is. */
MUST_CHECK enum err builder_note_home(struct builder *b, struct error *e);
/* ERR_FENCED: another one builds. */
enum err builder_fenced(const struct builder *b, struct error *e);
/* ERR_LOST: the build must begin again. */
MUST_CHECK enum err builder_check_not_recreated(const struct builder *b, struct error *e);
/* The view, on the heap. The caller frees *@out, also on error. ERR_NOT_FOUND: that of another incarnation.
 */
MUST_CHECK enum err builder_load_view(struct builder *b, struct log_view **out, struct error *e);
/* What follows from number and nodes of the shape. ERR_CONFIG: nodes that are not configured. */
MUST_CHECK enum err builder_settle_shape(struct builder *b, uint64_t filter_seed, struct error *e);

/* --- build_lanes.c --- */
/* The lanes and eras of @v are those that the build relies on. ERR_CONFIG: a lane on a node that is not
 * configured. */
MUST_CHECK enum err builder_take_lanes(struct builder *b, const struct log_view *v, struct error *e);
/* Go to the end of lane @i: what is in it by now is in the rows. ERR_LOST. */
MUST_CHECK enum err builder_find_end(struct builder *b, unsigned i, struct error *e);
#endif
