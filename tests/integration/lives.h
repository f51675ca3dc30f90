/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LIVES_H
#define TESTS_INTEGRATION_LIVES_H
/* Filters that are logs, as makers and deleters see them, on servers of the test: two nodes behind a proxy
 * that stops a job at its n-th command, or a cluster (TWINBLOOM_TEST_CLUSTER), which has no proxy. */
#include <pthread.h>
#include "shard/generations/drop.h"
#include "shard/generations/grow.h"
#include "shard/generations/make.h"
#include "shard/view/view_load.h"
#include "tests/integration/filters.h"
#include "tests/lib/proxy.h"

struct life {
    struct servers servers;
    struct proxy *proxy; /* NULL: a cluster */
    struct nodes nodes;  /* behind the proxy */
    struct sync_client *link;
    struct names names;
    struct placement placement;
    struct make_options options;
    struct log_view view; /* as it was last made or loaded */
};

/* What a job does: log_make(), log_drop() or log_grow() by a link of its own. */
typedef enum err life_job_fn(struct life *w, struct sync_client *l, struct error *e);

/* For a CMocka group. */
int life_start(struct life *w);
int life_stop(struct life *w);
/* Empty Redis, and name the filter @name. */
void life_begin(struct life *w, const void *name, size_t length);
void life_end(struct life *w);

enum err life_make(struct life *w, struct sync_client *l, struct error *e);
enum err life_drop(struct life *w, struct sync_client *l, struct error *e);

/* The number of keys of all nodes, without the keys that record deletions for a while. */
long long life_keys(struct life *w);
/* The view must exist and be valid, each lane must begin with the entry up to which the view is folded, and
 * each shard must exist, empty or not, with its header and its tags. Redis must have only @others more
 * keys. */
void life_is_whole(struct life *w, long long others);

/* Run @job by a link that the proxy holds at its @n-th command forever: no later command arrives, and @moment
 * says whether that one does. False: the job ended before. */
bool life_kill(struct life *w, life_job_fn *job, uint64_t n, enum proxy_moment moment);
/* As above, but the job goes on at life_wake(), which returns its result. */
struct life_sleeper {
    struct life *life;
    life_job_fn *job;
    struct sync_client *link;
    pthread_t thread;
    enum err code;
    struct error e;
    _Atomic bool ended;
};
bool life_put_to_sleep(struct life_sleeper *s, struct life *w, life_job_fn *job, uint64_t n,
                       enum proxy_moment moment);
enum err life_wake(struct life_sleeper *s);
#endif
