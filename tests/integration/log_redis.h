/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LOG_REDIS_H
#define TESTS_INTEGRATION_LOG_REDIS_H
/* One Redis for a group of tests of a filter that is a log, with clients and names. */
#include "shard/view/log_view.h"
#include "tests/integration/log_members.h"
#include "tests/lib/temp_redis.h"

struct log_redis {
    struct temp_redis redis;
    struct client client;
    struct nodes nodes;
    struct sync_client *link;
    struct names names;    /* of the filter; set by the test */
    struct log_view *view; /* storage for a view that a test loads */
};
extern struct log_redis on;

/* An empty Redis with a new filter "f", whose names are set: see log_member_make(). */
void log_redis_make(uint64_t capacity, unsigned lanes, uint32_t shard_bytes);

/* Make generation @number current, by the view as it is now; again if that changes meanwhile. */
MUST_CHECK enum err log_switch(struct sync_client *l, const struct names *names, uint64_t number,
                               struct error *e);

/* Setup of a group. */
int log_redis_start(void **state);
int log_redis_stop(void **state);
#endif
