/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MARKS_H
#define SHARD_MARKS_H
/* Marks: every few seconds each master is told where the database was a moment before, together with the
 * master's lineage (lineage.h). Replication keeps the order of writes, so a mark of a trusted lineage that is
 * found on a promoted replica, or after a restart, proves that everything which was executed before it is
 * there, too: what may be missing was written after it.
 *
 * They lie in a list, the newest first: of a list of nodes under "P:mark" on each, of a cluster under
 * "P:{tag}:mark", where the tag is a number that belongs into the lowest slot which the master holds. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/link.h"
#include "shard/names.h"

enum { MARK_SERVER_MAX = 48, MARK_LINEAGE_MAX = 41, MARKS_KEPT_MIN = 64, MARKS_KEPT_MAX = 4096 };

struct mark {
    uint64_t ms;                    /* the database's clock */
    uint64_t horizon;               /* transactions with smaller ids had ended before it was written */
    uint64_t next;                  /* ids from this one on had not been given when that was asked */
    char server[MARK_SERVER_MAX];   /* of the database: ids compare only where it is the same; no ':' */
    char lineage[MARK_LINEAGE_MAX]; /* hexadecimal, of the master that it was written to */
};

/* False: nobody wrote that text. */
bool mark_parse(struct mark *out, const char *text, size_t length);

/* A key that is on every master: @what, under the name that lies there. @slot: the lowest that it holds; of a
 * list of nodes SLOTS. */
void marks_key(const char *prefix, unsigned slot, const char *what, struct key_name *out);

/* The key of a master's list. @slot: the lowest that it holds; of a list of nodes SLOTS. */
void marks_name(const char *prefix, unsigned slot, struct key_name *out);

struct marks_outcome {
    unsigned masters; /* that hold slots */
    unsigned written; /* by this call, or young enough without it */
    struct error why; /* of the last one that is neither */
};

/* Write @m, whose lineage each master fills in, to all masters, unless the newest one there is less than
 * @interval_ms apart. Those that do not answer do not keep the others from it. ERR_UNREACHABLE, ERR_TIMEOUT,
 * ERR_REFUSED, ERR_NOMEM: it is not known who they are. */
MUST_CHECK enum err marks_write(struct link *l, const char *prefix, const struct mark *m,
                                uint64_t interval_ms, unsigned keep, struct marks_outcome *out,
                                struct error *e);

/* The marks of the @i-th master (after link_masters()), the newest first; what is no mark is left out. The
 * caller frees *@out. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. */
MUST_CHECK enum err marks_read(struct link *l, const char *prefix, unsigned i, struct mark **out,
                               size_t *count, struct error *e);

/* What a mark must be like to be relied on. */
struct marks_wish {
    const char *server; /* the database now */
    uint64_t next;      /* the id that it gives next: a mark that is ahead of it is of another history */
    uint64_t after; /* the mark is younger than this id: what is not covered by rows was written before it */
    uint64_t margin_ms; /* how much older than the newest mark the one is whose horizon is taken */
    bool (*trusted)(void *arg, const char *lineage);
    void *arg;
};

/* Rows of transactions with ids from *@horizon on are those that may be missing. False: no mark is fit for
 * that. Pure. */
bool marks_choose(const struct mark *marks, size_t count, const struct marks_wish *w, uint64_t *horizon);

/* How many marks must be kept for a margin. */
unsigned marks_kept(uint64_t interval_ms, uint64_t margin_ms);
#endif
