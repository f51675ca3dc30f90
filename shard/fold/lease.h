/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_LEASE_H
#define SHARD_FOLD_LEASE_H
/* The lease of a filter's folder, P:{F}:folder: a hash that expires, with the name of the process that folds
 * and how that fares. It saves work, and guards nothing: whoever folds without it, or goes on after its end,
 * is fenced by tokens (folder.h; fold.pml knows no lease).
 *
 * The happy path is: take it when something is to be folded; renew it while folding goes on; give it back
 * when nothing is left. Possible failure modes are: another process has it (ERR_BUSY: try again at @again);
 * the process was stopped for longer than it lasts (lease_is_held() is false: take it again); it cannot be
 * renewed (it ends by itself). Blocking; of one thread. */
#include <stdbool.h>
#include <stdint.h>
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/log/entry.h"
#include "shard/redis/script_call.h"

enum { LEASE_MS_DEFAULT = 10 * 1000, LEASE_OWNER_MAX = 120, LEASE_TEXT_MAX = 200 };

/* How folding fares, as whoever has the lease says it. */
struct lease_report {
    uint64_t folds;             /* by this process */
    uint64_t folded_ms;         /* Unix time of the last one; 0: none yet */
    char error[LEASE_TEXT_MAX]; /* of the last try; "": it went well */
};

struct lease {
    struct sync_client
        *redis; /* borrowed, as the names are; not one that a pipeline goes over while it is renewed */
    const struct names *names;
    unsigned ttl_ms;
    char owner[LEASE_OWNER_MAX];
    uint64_t until; /* monotonic, us: it lasts until then at least; 0: it is not this process' */
    uint64_t again; /* when to renew it, or to try again */
    char holder[LEASE_OWNER_MAX]; /* who has it, as Redis said last; "": nobody */
    struct script_call call;
};

/* What a lease's holder is called: @owner, at most 80 bytes of it, and the id that it has as a writer. */
void lease_name(char out[LEASE_OWNER_MAX], const char *owner, const uint8_t writer[LOG_WRITER_BYTES]);
/* @holder is of that writer. */
bool lease_is_of(const char *holder, const uint8_t writer[LOG_WRITER_BYTES]);

/* @owner names this process, and no other one, also not an earlier one of it. Nothing is sent. */
void lease_init(struct lease *l, struct sync_client *redis, const struct names *names, const char *owner,
                unsigned ttl_ms);
/* It is not given back. */
void lease_fini(struct lease *l);

bool lease_is_held(const struct lease *l);
/* Take it, or renew it. ERR_BUSY: another process has it; the text names it. ERR_WRONG_TYPE: its key is
 * something else. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. */
MUST_CHECK enum err lease_take(struct lease *l, const struct lease_report *report, struct error *e);
/* Errors are of no account: it ends by itself. */
void lease_give_back(struct lease *l);

/* What anybody can see of it. */
struct lease_status {
    char holder[LEASE_OWNER_MAX]; /* "": nobody has it, nothing is to be folded */
    struct lease_report report;
};
MUST_CHECK enum err lease_look(struct sync_client *l, const struct names *names, struct lease_status *out,
                               struct error *e);
#endif
