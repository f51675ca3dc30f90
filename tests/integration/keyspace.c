/* SPDX-License-Identifier: MIT */
#include "tests/integration/keyspace.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

enum { SETTLE_MS = 20000 };

struct keyspace keyspace;

/* The lease is short, because the next holder waits for it when a holder dies. Shards are small, so that
 * there are many. */
int keyspace_setup(void **state)
{
    (void)state;
    struct error e = {""};
    if (fixture_start(&keyspace.fixture, &(struct fixture_options){.nodes = 2}) != 0)
        return -1;
    const struct daemon_options o = {.nodes = keyspace.fixture.node_list,
                                     .service = "check_interval = 3s\ntimeout = 5s\n",
                                     .redis = "shard_bytes = 1KiB\ntimeout = 2s\n",
                                     .expansion = "lease = 3s\n",
                                     .filters = "[filter fixed]\ncapacity = 1000\nerror_rate = 0.01\n"};
    for (unsigned i = 0; i < 2; i++) {
        must(daemon_start(&keyspace.fixture.daemon[i], &o, &e), e);
        must(client_open(&keyspace.fixture.client[i], keyspace.fixture.daemon[i].port, KEYSPACE_REPLY_MS, &e),
             e);
        must(client_open(&keyspace.redis[i], keyspace.fixture.redis[i].port, KEYSPACE_REPLY_MS, &e), e);
    }
    must(client_wait_status(&keyspace.fixture.client[1], "fixed", "built", "1", SETTLE_MS, &e), e);
    return 0;
}

int keyspace_teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        client_close(&keyspace.redis[i]);
    return fixture_stop(&keyspace.fixture);
}

int64_t keyspace_integer(struct client *c, const char *command)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_integer(c, &n, &e, command), e);
    return n;
}

const char *keyspace_refusal(struct client *c, const char *command)
{
    static char text[512];
    redisReply *reply = client_command(c, command);
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ERROR)
        fail_msg("%s: no error", command);
    (void)snprintf(text, sizeof(text), "%s", reply->str);
    freeReplyObject(reply);
    return text;
}

void keyspace_ask_redis(const char *command)
{
    redisReply *reply = client_command(&keyspace.redis[0], command);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply->str);
    freeReplyObject(reply);
}

void keyspace_wait_integer(struct client *c, const char *command, int64_t wanted)
{
    uint64_t until = clock_mono_us() + SETTLE_MS * 1000ull;
    int64_t n;
    while ((n = keyspace_integer(c, command)) != wanted) {
        if (clock_mono_us() > until)
            fail_msg("%s gives %" PRId64 ", not %" PRId64, command, n, wanted);
        clock_sleep_us(10 * 1000);
    }
}

void keyspace_add(unsigned d, const char *filter, uint64_t first, uint64_t count)
{
    struct error e = {""};
    must(client_madd(&keyspace.fixture.client[d], filter, fixture_code, first, count, &e), e);
}

uint64_t keyspace_present(unsigned d, const char *filter, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t n = 0;
    must(client_mexists(&keyspace.fixture.client[d], filter, fixture_code, first, count, &n, NULL, &e), e);
    return n;
}

void keyspace_are_gone(unsigned d, const char *filter, uint64_t first, uint64_t count, uint64_t most)
{
    enum { LOOK_MS = 11000 };
    uint64_t until = clock_mono_us() + LOOK_MS * 1000ull;
    uint64_t left = keyspace_present(d, filter, first, count);
    while (left > most && clock_mono_us() < until) {
        clock_sleep_us(10 * 1000);
        left = keyspace_present(d, filter, first, count);
    }
    if (left > most)
        fail_msg("coordinator %u reports %" PRIu64 " keys of %s present", d, left, filter);
}

static void count_lasting(const char *name, void *arg)
{
    struct client *c = arg;
    int64_t ttl = 0;
    struct error e = {""};
    must(client_integer(c, &ttl, &e, "PTTL %s", name), e);
    if (ttl == -1)
        fail_msg("%s stays for ever", name);
}

void keyspace_nothing_is_left_of(const char *filter)
{
    struct error e = {""};
    char pattern[64];
    static const char *const tails[] = {"}:*", ".*}:*"};
    for (unsigned node = 0; node < 2; node++)
        for (unsigned i = 0; i < 2; i++) {
            (void)snprintf(pattern, sizeof(pattern), "twinbloom:{%s%s", filter, tails[i]);
            must(client_scan(&keyspace.redis[node], pattern, count_lasting, &keyspace.redis[node], &e), e);
        }
}
