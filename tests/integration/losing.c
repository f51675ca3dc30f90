/* SPDX-License-Identifier: MIT */
#include "tests/integration/losing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static int start(struct fixture *f, const char *filter, bool cluster)
{
    const struct fixture_options o = {.nodes = cluster ? 0 : LOSING_NODES,
                                      .masters = cluster ? LOSING_NODES : 0,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = LOSING_ROWS,
                                      .capacity = 100000,
                                      .rate = "0.001",
                                      .filter = filter,
                                      .redis_lines = "shard_bytes = 4KiB\n",
                                      .expansion = "lease = 2s\nreaders = 2\npage_rows = 200\n",
                                      .service = "check_interval = 200ms\ntimeout = 5s\n"};
    return fixture_start(f, &o);
}

int losing_start(struct fixture *f, const char *filter)
{
    return start(f, filter, false);
}

int losing_start_cluster(struct fixture *f)
{
    return start(f, NULL, true);
}

struct counting {
    struct client *client;
    unsigned count;
};

static void count_string(const char *name, void *arg)
{
    struct counting *c = arg;
    redisReply *r = client_command(c->client, "TYPE %s", name);
    c->count += r != NULL && r->type == REDIS_REPLY_STATUS && strcmp(r->str, "string") == 0;
    freeReplyObject(r);
}

unsigned losing_shards(struct fixture *f, unsigned node, int64_t generation)
{
    struct error e = {""};
    struct client c = {0};
    char pattern[128];
    struct counting counting = {.client = &c};
    (void)snprintf(pattern, sizeof(pattern), "twinbloom:{" FILTER ".%" PRId64 ".0.*}:*", generation);
    must(client_open(&c, f->redis[node].port, 10000, &e), e);
    must(client_scan(&c, pattern, count_string, &counting, &e), e);
    client_close(&c);
    return counting.count;
}

void losing_flush(struct fixture *f, unsigned node)
{
    struct error e = {""};
    struct client c = {0};
    if (f->cluster.masters > 0) {
        must(client_ok(&f->cluster.client[node], &e, "FLUSHALL"), e);
    } else {
        must(client_open(&c, f->redis[node].port, 10000, &e), e);
        must(client_ok(&c, &e, "FLUSHALL"), e);
        client_close(&c);
    }
}
