/* SPDX-License-Identifier: MIT */
#include "tests/integration/watched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "shard/redis/sentinel_watch.h"
#include "tests/lib/client.h"

#define must(expression, e)                                                                                  \
    do {                                                                                                     \
        if ((expression) != ERR_OK)                                                                          \
            fail_msg("%s: %s", #expression, (e).text);                                                       \
    } while (0)

static void launch_sentinel(struct watched *w, unsigned i)
{
    struct error e = {""};
    char path[PATH_MAX + 32], log[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/%u.conf", w->files, i);
    (void)snprintf(log, sizeof(log), "%s/%u.log", w->files, i);
    const char *const argv[] = {temp_redis_program(), path, "--sentinel", NULL};
    must(process_start(&w->sentinel[i], argv, log, &e), e);
    must(client_wait_ping(w->port[i], 10000, &w->sentinel[i], &e), e);
}

static void start_sentinel(struct watched *w, unsigned i)
{
    char path[PATH_MAX + 32];
    w->port[i] = process_free_port();
    (void)snprintf(path, sizeof(path), "%s/%u.conf", w->files, i);
    FILE *to = fopen(path, "we");
    assert_non_null(to);
    (void)fprintf(to,
                  "port %u\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %u 2\n"
                  "sentinel down-after-milliseconds main 700\nsentinel failover-timeout main 4000\n",
                  w->port[i], w->files, w->redis[0].port);
    (void)fclose(to);
    launch_sentinel(w, i);
}

void watched_kill_sentinels(struct watched *w)
{
    for (unsigned i = 0; i < WATCHED_SENTINELS; i++)
        process_kill(&w->sentinel[i]);
}

void watched_restart_sentinels(struct watched *w)
{
    for (unsigned i = 0; i < WATCHED_SENTINELS; i++)
        launch_sentinel(w, i);
}

/* True: sentinel @i knows the other sentinels and the replica. */
static bool agreed(const struct watched *w, unsigned i)
{
    struct client c;
    struct error e = {""};
    bool good = false;
    must(client_open(&c, w->port[i], 5000, &e), e);
    redisReply *r = client_command(&c, "SENTINEL CKQUORUM main");
    redisReply *replicas = client_command(&c, "SENTINEL REPLICAS main");
    redisReply *others = client_command(&c, "SENTINEL SENTINELS main");
    if (r != NULL && replicas != NULL && others != NULL)
        good = r->type == REDIS_REPLY_STATUS && replicas->elements == 1 &&
               others->elements == WATCHED_SENTINELS - 1;
    freeReplyObject(r);
    freeReplyObject(replicas);
    freeReplyObject(others);
    client_close(&c);
    return good;
}

bool watched_master_is(struct watched *w, uint16_t port)
{
    char host[NODE_NAME_MAX];
    uint16_t found;
    unsigned version;
    return sentinels_address(w->nodes.sentinels, &w->nodes.node[0], host, &found, &version) && found == port;
}

void watched_start(struct watched *w)
{
    struct error e = {""};
    struct nodes asked;
    *w = (struct watched){.redis = {{.port = 0}}};
    must(process_make_directory(w->files, "sentinels", &e), e);
    must(temp_redis_start(&w->redis[0], NULL, &e), e);
    (void)snprintf(w->replica_of, sizeof(w->replica_of), "%u", w->redis[0].port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", w->replica_of, NULL};
    must(temp_redis_start(&w->redis[1], extra, &e), e);
    for (unsigned i = 0; i < WATCHED_SENTINELS; i++) {
        size_t n = strlen(w->urls);
        start_sentinel(w, i);
        (void)snprintf(w->urls + n, sizeof(w->urls) - n, "%sredis://127.0.0.1:%u", i == 0 ? "" : ", ",
                       w->port[i]);
    }
    uint64_t until = clock_mono_us() + WATCHED_WAIT_MS * 1000ull;
    for (unsigned i = 0; i < WATCHED_SENTINELS; i++)
        while (!agreed(w, i)) {
            assert_true(clock_mono_us() < until);
            clock_sleep_us(100 * 1000);
        }
    must(sentinels_parse(&w->nodes, &asked, w->urls, "main", &e), e);
    must(sentinels_new(&w->nodes.sentinels, &w->nodes, &e), e);
    must(sentinel_watch_start(&w->watch, w->nodes.sentinels, &asked, 500, &e), e);
    while (!watched_master_is(w, w->redis[0].port)) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20 * 1000);
    }
}

void watched_stop(struct watched *w)
{
    sentinel_watch_stop(w->watch);
    sentinels_free(w->nodes.sentinels);
    watched_kill_sentinels(w);
    temp_redis_fini(&w->redis[0]);
    temp_redis_fini(&w->redis[1]);
    process_remove_directory(w->files);
}
