/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_BUILD_INTERNAL_H
#define SHARD_GENERATIONS_BUILD_INTERNAL_H
/* What build.c (place in the view, shards, cutover), build_lanes.c (lanes and their entries) and
 * build_record.c (the record) share. */
#include "shard/generations/build.h"

/* --- build.c --- */
/* Begin a script on the view and the record; add arguments; run it. */
void builder_script(struct builder *b, const char *text);
MUST_CHECK enum err builder_run(struct builder *b, long long *result, struct error *e);
/* Note in which history the metadata node is. */
MUST_CHECK enum err builder_note_home(struct builder *b, struct error *e);
/* ERR_FENCED: another builder took over. */
enum err builder_fenced(const struct builder *b, struct error *e);
/* ERR_LOST: the build must begin again. */
MUST_CHECK enum err builder_check_not_recreated(const struct builder *b, struct error *e);
/* Load b->view. ERR_NOT_FOUND: it is that of another incarnation. */
MUST_CHECK enum err builder_load_view(struct builder *b, struct error *e);
/* Set what follows from the view, and from number and nodes of the shape. ERR_CONFIG: a node is not
 * configured. */
MUST_CHECK enum err builder_settle_shape(struct builder *b, struct error *e);

/* --- build_lanes.c --- */
/* Make the lanes and eras of the view those that the build relies on. ERR_CONFIG: the node of a lane is not
 * configured. */
MUST_CHECK enum err builder_take_lanes(struct builder *b, struct error *e);
/* Go to the end of lane @i: the rows have what is in it now. ERR_LOST. */
MUST_CHECK enum err builder_find_end(struct builder *b, unsigned i, struct error *e);
#endif
