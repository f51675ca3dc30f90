/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_OWN_H
#define SHARD_LOG_OWN_H
/* What a process keeps of a lane: its own acknowledged entries, until the shards in Redis hold them. If the
 * lane loses entries, each process appends its own again (roll.h): after a failover, or a loss of the whole
 * lane.
 *
 * The kept entries belong to one stream under one era: own_enter(). Entries that are met under another one
 * are refused. So nothing is acknowledged under an era once the search for what is missing under the next one
 * has begun. The entries also belong to one registration of the writer: entries behind a removal of that
 * registration are refused, too.
 *
 * Any thread may call all functions but own_free(). Each takes a lock, which is never held across a
 * command. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shard/log/lane.h"

struct own;

/* @bytes_max bounds the bytes of the entries, with the overhead of keeping them. NULL: no memory. */
struct own *own_new(size_t bytes_max);
void own_free(struct own *own);

/* From now on entries are met in the stream of @lane, under its era. Kept entries are missing there until
 * own_found() or own_met(). Nothing changes if the stream and era are the same as before. */
void own_enter(struct own *own, const struct lane *lane);

/* As own_enter(); but entries that were met in the stream and era of @from, whose history goes on in @lane,
 * are not missing. */
void own_go_on(struct own *own, const struct lane *from, const struct lane *lane);

/* True if all kept entries were met in the stream of @lane, under its era: a roll call finds nothing missing.
 */
bool own_is_in(struct own *own, const struct lane *lane);

/* Set the number of the writer's registration, which only grows. At first it is 0: no removal applies. */
void own_register(struct own *own, uint64_t registration);
/* A removal of the writer's registration was met: refuse entries from here on. */
void own_remove(struct own *own, uint64_t registration);
/* 0, or, if the registration was removed, the least number that a new registration must have. */
uint64_t own_is_removed(struct own *own);

/* Called before entries are sent. ERR_NOMEM: there is no room for @entries entries of @bytes bytes together;
 * the folder must go on first. */
MUST_CHECK enum err own_room(struct own *own, unsigned entries, size_t bytes, struct error *e);

/* An entry of this process was met: keep a copy of its bytes. Called before it is acknowledged. ERR_FENCED:
 * the stream or the era has changed, or the writer was removed; the entry must not be acknowledged, and is
 * not kept. ERR_NOMEM. */
MUST_CHECK enum err own_met(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id id,
                            const void *bytes, size_t length, struct error *e);

/* As own_met(), for keys that were there: no entry has them, and @at is the last one that was read. Nothing
 * is kept if the entries up to @at were forgotten. ERR_BUSY: none of the lane were, and perhaps none will be,
 * as no entry comes. */
MUST_CHECK enum err own_there(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id at,
                              const void *bytes, size_t length, struct error *e);

/* The shards of the generation that is read hold all entries of @lane, under its era, up to @id. Nothing is
 * forgotten: another generation may lack them. */
void own_base(struct own *own, const struct lane *lane, struct log_id id);

/* Forget the entries up to @id: the shards of every generation hold all entries of @lane, under its era, up
 * to there. Missing entries are kept. Some that could be forgotten may stay until a later call. */
void own_folded(struct own *own, const struct lane *lane, struct log_id id);

/* Bytes of the entries that are kept, with what it costs to keep them. No lock is taken. */
size_t own_bytes(const struct own *own);

/* The number of kept entries; once it is 0 the writer may leave. */
size_t own_count(struct own *own);

/* --- for the roll call --- */

/* Where to begin the search for missing entries: the least id that one of them had. False: none is
 * missing. */
MUST_CHECK bool own_from(struct own *own, struct log_id *out);
/* The missing entry with the least sequence that is @sequence or more: its sequence, and a copy of its bytes.
 * False: there is none. */
MUST_CHECK bool own_missing(struct own *own, uint64_t sequence, uint64_t *found,
                            uint8_t bytes[LOG_ENTRY_BYTES_MAX], size_t *length);
/* The entry was appended again, as @id. It is missing until it is found there. */
void own_sent(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id id);
/* The entry is in @lane, under its era, as @id. Does nothing for an entry that is not kept. */
void own_found(struct own *own, const struct lane *lane, uint64_t sequence, struct log_id id);
#endif
