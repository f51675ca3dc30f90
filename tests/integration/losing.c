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
                                      .expansion = "lease = 2s\n"
                                                   "readers = 2\npage_rows = 200\n",
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

void losing_noticed(struct fixture *f, unsigned d, int64_t epoch)
{
    struct error e = {""};
    must(client_wait_status_least(&f->client[d], FILTER, "epoch", epoch + 1, HEALING_WAIT_MS, &e), e);
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
    (void)snprintf(pattern, sizeof(pattern), "twinbloom:{" FILTER ".%" PRId64 ".0.*.e*", generation);
    must(client_open(&c, f->redis[node].port, 10000, &e), e);
    must(client_scan(&c, pattern, count_string, &counting, &e), e);
    client_close(&c);
    return counting.count;
}

/* Those that are answered at all must be present. */
static void none_is_absent(struct fixture *f, unsigned d, uint64_t count)
{
    enum { STEP = 197 };
    if (f->client[d].redis == NULL || f->client[d].redis->err != 0)
        fixture_reconnect(f, d);
    for (uint64_t i = clock_mono_us() % STEP; i < count; i += STEP) {
        char code[CLIENT_KEY_MAX];
        (void)fixture_code(i, code);
        redisReply *r = client_command(&f->client[d], "BF.EXISTS " FILTER " %s", code);
        if (r != NULL && r->type == REDIS_REPLY_INTEGER && r->integer == 0)
            fail_msg("coordinator %u says no to code %" PRIu64, d, i);
        freeReplyObject(r);
        if (r == NULL)
            return;
    }
}

void losing_flush_unseen(struct fixture *f, unsigned node)
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

void losing_flush(struct fixture *f, unsigned node)
{
    losing_flush_unseen(f, node);
    none_is_absent(f, 0, LOSING_ROWS);
}

void losing_await(struct fixture *f, unsigned d, uint64_t count)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + HEALING_WAIT_MS * 1000ull;
    for (;;) {
        char degraded[16] = "", state[32] = "";
        none_is_absent(f, d, count);
        if (client_status(&f->client[d], FILTER, "degraded", degraded, sizeof(degraded), &e) == ERR_OK &&
            client_status(&f->client[d], FILTER, "job_state", state, sizeof(state), &e) == ERR_OK &&
            strcmp(degraded, "0") == 0 && strcmp(state, "done") == 0)
            return;
        if (clock_mono_us() > until)
            must(client_wait_status(&f->client[d], FILTER, "degraded", "healed in time", 1, &e), e);
        clock_sleep_us(20000);
    }
}

void losing_is_whole(struct fixture *f, uint64_t count)
{
    for (unsigned d = 0; d < f->daemons; d++) {
        losing_await(f, d, count);
        fixture_all_present(f, d, 0, count);
        assert_in_range(fixture_false_positives(f, d, 10000), 0, 60); /* "maybe" is over */
    }
}

unsigned losing_owner(struct fixture *f, unsigned asked)
{
    struct error e = {""};
    char owner[128], pid[32];
    must(client_status(&f->client[asked], FILTER, "job_owner", owner, sizeof(owner), &e), e);
    (void)snprintf(pid, sizeof(pid), "-%d-", (int)f->daemon[0].process.pid);
    return strstr(owner, pid) != NULL ? 0 : 1;
}

void losing_throttle(struct fixture *f, unsigned d, unsigned rows)
{
    redisReply *r = client_command(&f->client[d], "TB.THROTTLE " FILTER " %u", rows);
    if (rows != 0 && (r == NULL || r->type == REDIS_REPLY_ERROR)) /* else the job may have ended */
        fail_msg("TB.THROTTLE: %s", r == NULL ? "no reply" : r->str);
    freeReplyObject(r);
}
