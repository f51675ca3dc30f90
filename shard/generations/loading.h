/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_LOADING_H
#define SHARD_GENERATIONS_LOADING_H
/* Loading filters from dumps: the blocking part. A filter that is being loaded has a record, P:{F}:load; its
 * shards lie under temporary names (names_new_shard()), and no view names them before all are there. Record
 * and shards expire LOADING_TTL_MS after the last chunk came (a shard: after it was written). */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/dump.h"
#include "shard/view/handle.h"

enum { LOADING_TTL_MS = 24 * 3600 * 1000, LOADED_TTL_MS = 600 * 1000 };

/* The content of P:{F}:load. */
struct loading {
    uint64_t dump; /* id of the dump */
    uint64_t incarnation;
    bool done;               /* the filter was published with that incarnation; the other fields are empty */
    uint32_t arrived;        /* number of chunks */
    struct generation shape; /* under which the shards lie */
    struct dump_header header;
};

/* ERR_NOT_FOUND: there is no record. ERR_PARSE: it is damaged. Sets f->names.incarnation. */
MUST_CHECK enum err loading_read(struct handle *f, struct loading *out, struct error *e);

/* Make the generation for the dump @h, with shards made under @token. */
void loading_shape(struct generation *out, const struct dump_header *h, const struct nodes *nodes,
                   uint64_t token);

/* Begin to load the filter of @l->header and @l->shape. If the dump with this very header is already being
 * loaded, nothing changes. Shards of another dump that was being loaded are kept: see loading_discard().
 * ERR_EXISTS: there is a view. */
MUST_CHECK enum err loading_begin(struct handle *f, const struct loading *l, struct error *e);

/* Stop a load, if there is one, and delete its shards; those of a record that cannot be read expire. It is
 * not published afterwards. */
MUST_CHECK enum err loading_end(struct handle *f, struct error *e);

/* Delete the shards that were written for @l. */
MUST_CHECK enum err loading_discard(struct handle *f, const struct loading *l, struct error *e);

/* Put the tags into the shards of @run (as dump_tags_put()), and write those that are not there yet.
 * ERR_PARSE: tags of a shard are not zero. */
MUST_CHECK enum err loading_write(struct handle *f, const struct loading *l, const struct dump_run *run,
                                  uint8_t *shards, struct error *e);

/* Note in the record that @count chunks have arrived (or, if @arrived is false, that they have not); sets
 * l->arrived. ERR_FENCED: the record belongs to another load, or the filter was published. */
MUST_CHECK enum err loading_note(struct handle *f, struct loading *l, const uint32_t *chunks, size_t count,
                                 bool arrived, struct error *e);

/* Set there[n] = 1 for every chunk n that has arrived, by the record. @there has header.chunks + 1 zeros. */
MUST_CHECK enum err loading_arrived(struct handle *f, const struct loading *l, uint8_t *there,
                                    struct error *e);

/* Look for every shard, and prolong its life. Set there[n] = 0 for each chunk with a missing shard. */
MUST_CHECK enum err loading_look(struct handle *f, const struct loading *l, uint8_t *there, struct error *e);

#endif
