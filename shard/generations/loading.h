/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_LOADING_H
#define SHARD_GENERATIONS_LOADING_H
/* Loading filters from dumps: the blocking side. A filter that is being loaded has a record, P:{F}:load, and
 * its shards lie under the names of new ones (names_new_shard); no view names them before all are there. Both
 * expire LOADING_TTL_MS after the last chunk has come (a shard: after it was written). */
#include <stdbool.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/filter/dump.h"
#include "shard/view/handle.h"

enum { LOADING_TTL_MS = 24 * 3600 * 1000, LOADED_TTL_MS = 600 * 1000 };

/* What P:{F}:load says. */
struct loading {
    uint64_t dump; /* id */
    uint64_t incarnation;
    bool done;        /* the filter was published under that incarnation; the rest is empty */
    uint32_t arrived; /* chunks */
    struct view view; /* what will be published */
    struct dump_header header;
};

/* ERR_NOT_FOUND: there is none. ERR_PARSE: damaged. Sets f->names.incarnation. */
MUST_CHECK enum err loading_read(struct handle *f, struct loading *out, struct error *e);

/* The view that @h becomes under @incarnation, its shards made under @token. */
void loading_view(struct view *out, const struct dump_header *h, const struct nodes *nodes,
                  uint64_t incarnation, uint64_t token);

/* Begin to load what @l->header and @l->view say. Where the same dump is being loaded already nothing is
 * changed. Shards of another dump that was being loaded are not touched: see loading_discard(). ERR_EXISTS:
 * there is a view. */
MUST_CHECK enum err loading_begin(struct handle *f, const struct loading *l, struct error *e);

/* Give up what is being loaded, if anything is, and delete its shards. Nobody publishes it afterwards. */
MUST_CHECK enum err loading_end(struct handle *f, struct error *e);

/* Delete the shards that were written for @l. */
MUST_CHECK enum err loading_discard(struct handle *f, const struct loading *l, struct error *e);

/* Put the tags into the shards of @run (as dump_tags_put()) and write those that are not there yet.
 * ERR_PARSE: something is where tags go. */
MUST_CHECK enum err loading_write(struct handle *f, const struct loading *l, const struct dump_run *run,
                                  uint8_t *shards, struct error *e);

/* Note in the record that @count chunks have arrived, or not after all; l->arrived is then right. ERR_FENCED:
 * the record is another's by now, or the filter is published. */
MUST_CHECK enum err loading_note(struct handle *f, struct loading *l, const uint32_t *chunks, size_t count,
                                 bool arrived, struct error *e);

/* there[n] = 1 for every chunk n that the record says has arrived; @there has header.chunks + 1 zeros. */
MUST_CHECK enum err loading_arrived(struct handle *f, const struct loading *l, uint8_t *there,
                                    struct error *e);

/* Look for every shard and let it live on; there[n] = 0 for chunks of which one is not there. */
MUST_CHECK enum err loading_look(struct handle *f, const struct loading *l, uint8_t *there, struct error *e);

#endif
