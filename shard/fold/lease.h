/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_LEASE_H
#define SHARD_FOLD_LEASE_H
/* The lease of a filter's folder, P:{F}:folder: a hash that expires, with the name of the folding process,
 * and how folding fares. The lease saves work, and guards nothing: a process that folds without it, or after
 * its end, is fenced by tokens (folder.h; fold.pml has no lease).
 *
 * The happy path is: take it when there is something to fold; renew it while folding goes on; give it back
 * when nothing is left. Possible failure modes are: another process has it (ERR_BUSY: try again at @again);
 * this process was stopped for longer than the lease lasts (lease_is_held() is false: take it again); it
 * cannot be renewed (it expires). Blocking; for one thread. */
#include <stdbool.h>
#include <stdint.h>
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/log/entry.h"
#include "shard/redis/script_call.h"

enum { LEASE_MS_DEFAULT = 10 * 1000, LEASE_OWNER_MAX = 120, LEASE_TEXT_MAX = 200 };

/* How folding fares, as told by the holder of the lease. */
struct lease_report {
    uint64_t folds;             /* number of folds by this process */
    uint64_t folded_ms;         /* Unix time of the last fold, ms; 0: none yet */
    char error[LEASE_TEXT_MAX]; /* of the last attempt; "": it succeeded */
};

struct lease {
    struct sync_client *redis; /* borrowed, like @names; has no pipeline under way while it is renewed */
    const struct names *names;
    unsigned ttl_ms;
    char owner[LEASE_OWNER_MAX];
    uint64_t until; /* monotonic us: the lease lasts at least until then; 0: this process does not hold it */
    uint64_t again; /* monotonic us: when to renew it, or to try again */
    char holder[LEASE_OWNER_MAX]; /* the holder, as Redis said last; "": nobody */
    struct script_call call;
};

/* The name of a holder: at most 80 bytes of @owner, and its id as a writer. */
void lease_name(char out[LEASE_OWNER_MAX], const char *owner, const uint8_t writer[LOG_WRITER_BYTES]);
/* True if @holder is the process with that writer id. */
bool lease_is_of(const char *holder, const uint8_t writer[LOG_WRITER_BYTES]);

/* @owner names this process and no other one, also no earlier run of it. Sends nothing. */
void lease_init(struct lease *l, struct sync_client *redis, const struct names *names, const char *owner,
                unsigned ttl_ms);
/* Does not give the lease back. */
void lease_fini(struct lease *l);

bool lease_is_held(const struct lease *l);
/* Take the lease, or renew it. ERR_BUSY: another process has it; the text names it. ERR_WRONG_TYPE: something
 * else has its key. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. */
MUST_CHECK enum err lease_take(struct lease *l, const struct lease_report *report, struct error *e);
/* Give the lease back. Errors are ignored: it expires. */
void lease_give_back(struct lease *l);

/* What every process can see of the lease. */
struct lease_status {
    char holder[LEASE_OWNER_MAX]; /* "": nobody has it, and there is nothing to fold */
    struct lease_report report;
};
MUST_CHECK enum err lease_look(struct sync_client *l, const struct names *names, struct lease_status *out,
                               struct error *e);
/* Ask ahead (shard/redis/ahead.h) for what lease_look() asks. */
void lease_ask_ahead(struct sync_client *l, unsigned user, const struct names *names);
#endif
