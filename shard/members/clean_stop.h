/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_CLEAN_STOP_H
#define SHARD_MEMBERS_CLEAN_STOP_H
/* What a clean stop tells the next start: that the nodes have lost nothing meanwhile, though they have other
 * replication ids, and nobody has anything in memory. Without it a restart of a machine that has Redis and
 * all coordinators degrades each filter.
 *
 * The coordinator that stops last sets a mark on each node (P:clean_stop), and then notes mark and ids in the
 * state file. A node keeps what it was sent in order. So one that has the mark has all that was acknowledged
 * before: under the noted ids, and under those that had led to them. The next start compares the marks before
 * it serves, and only then takes the mark out of the file, which counts once.
 *
 * All coordinators of a prefix share the file; its lock tells who is alone. Whoever serves holds it shared.
 * Who starts first, or stops last, holds it exclusively. The file stays behind with what is known: "the
 * history of these ids goes on in this process", for the others. Nobody may serve without the file between
 * the mark and the next start. Not for a cluster. Model: clean_stop.pml.
 *
 *   twinbloom state 1
 *   prefix <prefix>
 *   mark <mark>                     only behind a clean stop
 *   node <name>                     the metadata node is the first one
 *   ids <id>...
 *   now <id> <run> <received>       only without a mark, and if the history goes on
 *   ...
 *   end
 *
 * Blocking. One thread until clean_stop_begin() has ended, and again from clean_stop_end() on; between these
 * any thread may ask. */
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/redis/wire/replication.h"

struct clean_stop;

/* Open the file, or make it. ERR_CONFIG: it cannot be opened. ERR_NOMEM. */
MUST_CHECK enum err clean_stop_open(struct clean_stop **out, const char *path, const char *prefix,
                                    struct error *e);
/* Lock and read the file, and compare the marks of the nodes of @l. ERR_BUSY: another coordinator starts or
 * stops: call again. ERR_UNREACHABLE and others: some node cannot be asked: call again, or go on without
 * those. ERR_CONFIG: the file is another prefix's, or cannot be read. */
MUST_CHECK enum err clean_stop_look(struct clean_stop *s, struct sync_client *l, struct error *e);
/* Delete the marks of the nodes that answer: whoever serves from here on does so unseen by the file that they
 * are noted in. For a coordinator without a file. */
void clean_stop_unmark(struct sync_client *l, const char *prefix);
/* From here on this process may serve. Behind clean_stop_look(). ERR_CONFIG: the file cannot be written. */
MUST_CHECK enum err clean_stop_begin(struct clean_stop *s, struct sync_client *l, struct error *e);
/* True if the history of @id goes on in @now, as the masters were asked just now. @s may be NULL. */
bool clean_stop_goes_on(const struct clean_stop *s, uint64_t id, const struct replication *now);
/* This process, whose name among the members is @id, serves no more: note it, if no other one serves.
 * Waits some seconds for one that was killed. ERR_BUSY: another one has the file, and notes it later.
 * ERR_CONFLICT: another one serves without the file. Other errors: nothing is noted. */
MUST_CHECK enum err clean_stop_end(struct clean_stop *s, struct sync_client *l, const char *id,
                                   struct error *e);
/* @s may be NULL. */
void clean_stop_free(struct clean_stop *s);
#endif
