/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_OWN_H
#define SHARD_LOG_OWN_H
/* What a process keeps of a lane: its own acknowledged entries, until the shards hold them. If the lane loses
 * entries, by a failover or as a whole, each process appends its own again (roll.h in shard/view).
 *
 * The entries are those of one stream under one era: own_enter(). What is met under another one is refused,
 * so nothing is acknowledged under an era behind the look for what is missing under the next one. They are
 * also those of one registration of the writer: what is met behind a removal of that is refused, too.
 *
 * All functions but own_free() may be called in any thread; a lock is held for each, never across a command.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shard/log/lane.h"

struct own;

/* @bytes_max bounds what is kept, with what it costs to keep it. NULL: no memory. */
struct own *own_new(size_t bytes_max);
void own_free(struct own *own);

/* From now on entries are met in the stream of @lane, under its era. What is kept is missing there until
 * own_found() or own_met(). The same stream and era again change nothing. */
void own_enter(struct own *own, const struct lane *lane);

/* As own_enter(), but where entries were met in the stream of @from, under its era, whose history goes on in
 * @lane, they are there. */
void own_go_on(struct own *own, const struct lane *from, const struct lane *lane);

/* The number of the writer's registration, which only grows; 0, as at the beginning: nobody removes it. */
void own_register(struct own *own, uint64_t registration);
/* A removal of the writer was met: as from there on. */
void own_remove(struct own *own, uint64_t registration);
/* The least number that a registration must have for its entries to be acknowledged, or 0: it has it. */
uint64_t own_is_removed(struct own *own);

/* To be asked before entries are sent, by the one who sends: ERR_NOMEM: there is no room for @entries with
 * @bytes together; the folder has to go on first. */
MUST_CHECK enum err own_room(struct own *own, unsigned entries, size_t bytes, struct error *e);

/* An entry of ours was met: keep a copy of its bytes. To be called before it is acknowledged. ERR_FENCED: the
 * stream or the era is another one by now, or the writer is removed: it may not be acknowledged, and is not
 * kept. ERR_NOMEM. */
MUST_CHECK enum err own_met(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id id,
                            const void *bytes, size_t length, struct error *e);

/* The shards of every generation hold all entries of @lane, under its era, up to @id: forget them. What is
 * missing is kept. Some that could be forgotten may stay until a later call. */
void own_folded(struct own *own, const struct lane *lane, struct log_id id);

/* Bytes of the entries that are kept, with what it costs to keep them. No lock is taken. */
size_t own_bytes(const struct own *own);

/* Entries that are kept; with none a writer may leave. */
size_t own_count(struct own *own);

/* --- for the roll call --- */

/* Where to begin to look for what is missing: the least id that a missing entry had. False: none is missing.
 */
MUST_CHECK bool own_from(struct own *own, struct log_id *out);
/* The missing entry with the least sequence of at least @sequence: its sequence, and a copy of its bytes.
 * False: there is none. */
MUST_CHECK bool own_missing(struct own *own, uint64_t sequence, uint64_t *found,
                            uint8_t bytes[LOG_ENTRY_BYTES_MAX], size_t *length);
/* It was appended again, as @id, and is missing until it is found there. */
void own_sent(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id id);
/* An entry of ours is in @lane, under its era, as @id. One that is not kept is not kept now. */
void own_found(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id id);
#endif
