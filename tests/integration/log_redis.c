/* SPDX-License-Identifier: MIT */
#include "tests/integration/log_redis.h"

#include <signal.h>
#include <stdlib.h>

#include "shard/generations/grace.h"
#include "shard/view/view_load.h"

enum { REPLY_MS = 5000, SWITCHES_MAX = 100 }; /* others fold meanwhile */

struct log_redis on;

enum err log_switch(struct sync_client *l, const struct names *names, uint64_t number, struct error *e)
{
    struct log_view *v = malloc(sizeof(*v));
    assert_non_null(v);
    enum err code;
    unsigned attempts = 0;
    do {
        code = log_view_load(l, names, v, e);
        if (code == ERR_OK)
            code = grace_switch(l, names, "", v->version, &v->slot[number % 2].shape, e);
    } while (code == ERR_TIMEOUT && ++attempts < SWITCHES_MAX);
    free(v);
    return code;
}

int log_redis_start(void **state)
{
    struct error e = {""};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_redis_start(&on.redis, NULL, &e), e);
    must(client_open(&on.client, on.redis.port, REPLY_MS, &e), e);
    must(nodes_parse(&on.nodes, on.redis.url, &e), e);
    on.link = sync_client_new(&on.nodes, REPLY_MS, NULL);
    on.view = malloc(sizeof(*on.view));
    assert_true(on.link != NULL && on.view != NULL);
    return 0;
}

void log_redis_make(uint64_t capacity, unsigned lanes, uint32_t shard_bytes)
{
    struct error e = {""};
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    must(log_member_make(on.link, &on.names, capacity, lanes, shard_bytes, &e), e);
}

int log_redis_stop(void **state)
{
    (void)state;
    free(on.view);
    sync_client_free(on.link);
    client_close(&on.client);
    temp_redis_fini(&on.redis);
    return 0;
}
