/* SPDX-License-Identifier: MIT */
/* Filters with a short life: they are made, used and deleted, and the daemon keeps no memory for them. */
#include "tests/integration/fixture.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

/* A name that is kept costs 2 KiB, or 40 MiB for all names. A sanitizer holds back freed memory, so that the
 * process grows for a while. */
#if defined(__SANITIZE_ADDRESS__)
enum { GROWTH_MAX = 32 << 20 };
#else
enum { GROWTH_MAX = 16 << 20 };
#endif
enum { NAMES = 20000, FIRST = 1000, FORGET_MS = 10000, PIPELINED = 100 };

static struct temp_redis redis;
static struct daemon daemon_;
static struct client client;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    static char sanitizer[512];
    static const char *wrapper[] = {"env", sanitizer, NULL};
    const char *given = getenv("ASAN_OPTIONS");
    (void)snprintf(sanitizer, sizeof(sanitizer),
                   "ASAN_OPTIONS=%s%squarantine_size_mb=1:thread_local_quarantine_size_kb=16:"
                   "malloc_context_size=2",
                   given != NULL ? given : "", given != NULL ? ":" : "");
    must(temp_redis_start(&redis, NULL, &e), e);
    must(daemon_prepare(&daemon_,
                        &(struct daemon_options){.nodes = redis.url,
                                                 .service = "check_interval = 100ms\nlog_level = error\n"
                                                            "threads = 1\n",
                                                 .expansion = ""},
                        &e),
         e);
    daemon_.wrapper = wrapper;
    must(daemon_launch(&daemon_, &e), e);
    must(client_open(&client, daemon_.port, 60000, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&client);
    bool clean = daemon_fini(&daemon_);
    temp_redis_fini(&redis);
    return clean ? 0 : -1;
}

static int64_t memory(void)
{
    char path[64], text[128];
    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)daemon_.process.pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    (void)fclose(f);
    const char *resident = strchr(text, ' '); /* the second number, in pages */
    assert_non_null(resident);
    return strtoll(resident, NULL, 10) * 4096;
}

static unsigned names(void)
{
    const char *given = getenv("TWINBLOOM_NAMES");
    return given != NULL ? (unsigned)strtoul(given, NULL, 10) / PIPELINED * PIPELINED : NAMES;
}

/* --- by RESP --- */

static void take(const char *what, int64_t wanted)
{
    redisReply *r = NULL;
    if (redisGetReply(client.redis, (void **)&r) != REDIS_OK)
        fail_msg("%s: %s", what, client.redis->errstr);
    bool fine = r->type == REDIS_REPLY_STATUS || (r->type == REDIS_REPLY_INTEGER && r->integer == wanted);
    if (!fine)
        fail_msg("%s: %s %lld", what, r->str != NULL ? r->str : "", r->integer);
    freeReplyObject(r);
}

static void live_by_resp(const char *prefix, unsigned count)
{
    for (unsigned first = 0; first < count; first += PIPELINED) {
        for (unsigned i = first; i < first + PIPELINED; i++) {
            (void)redisAppendCommand(client.redis, "BF.RESERVE %s%u 0.01 10", prefix, i);
            (void)redisAppendCommand(client.redis, "BF.ADD %s%u x", prefix, i);
            (void)redisAppendCommand(client.redis, "DEL %s%u", prefix, i);
        }
        for (unsigned i = first; i < first + PIPELINED; i++) {
            take("BF.RESERVE", 0);
            take("BF.ADD", 1);
            take("DEL", 1);
        }
    }
}

/* --- by HTTP --- */

static void ask(int fd, const char *method, const char *path, const char *body, int status)
{
    const char *headers = body != NULL ? "Content-Type: application/json\r\n" : "";
    if (!http_send(fd, method, path, headers, body, body != NULL ? strlen(body) : 0))
        fail_msg("%s %s: the connection is closed", method, path);
    struct http_reply r = http_receive(fd, false);
    if (r.status != status)
        fail_msg("%s %s: %d, %s", method, path, r.status, r.body != NULL ? r.body : "");
    http_reply_fini(&r);
}

static void live_by_http(const char *prefix, unsigned count)
{
    char path[96], body[96];
    int fd = raw_open(daemon_.http_port);
    int on = 1; /* head and body are sent separately */
    assert_true(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(body, sizeof(body), "{\"name\":\"%s%u\",\"capacity\":10,\"error_rate\":0.01}", prefix,
                       i);
        ask(fd, "PUT", "/v1/filters", body, 201);
        (void)snprintf(path, sizeof(path), "/v1/filters/%s%u/add", prefix, i);
        ask(fd, "POST", path, "{\"keys\":[\"x\"]}", 200);
        (void)snprintf(path, sizeof(path), "/v1/filters/%s%u", prefix, i);
        ask(fd, "DELETE", path, NULL, 204);
    }
    raw_close(fd);
}

/* The first names fill what grows only once. The next names cost no memory once the controller has had a
 * look. */
static void are_forgotten(const char *by, void (*live)(const char *prefix, unsigned count))
{
    unsigned count = names();
    live("first", count / 4 < FIRST ? count / 4 / PIPELINED * PIPELINED : FIRST);
    clock_sleep_us(1000000);
    int64_t before = memory(), after;
    uint64_t began = clock_mono_us();
    live("next", count);
    uint64_t ended = clock_mono_us(), until = ended + FORGET_MS * UINT64_C(1000);
    while ((after = memory()) - before > GROWTH_MAX && clock_mono_us() < until)
        clock_sleep_us(100000);
    print_message("%s: %u names in %.1f s; memory %lld KiB before, %lld KiB after\n", by, count,
                  (double)(ended - began) / 1e6, (long long)before / 1024, (long long)after / 1024);
    if (after - before > GROWTH_MAX)
        fail_msg("%lld bytes more, at most %d", (long long)(after - before), GROWTH_MAX);
}

static void test_names__are_forgotten_by_resp(void **state)
{
    (void)state;
    are_forgotten("RESP", live_by_resp);
}

static void test_names__are_forgotten_by_http(void **state)
{
    (void)state;
    are_forgotten("HTTP", live_by_http);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names__are_forgotten_by_resp),
        cmocka_unit_test(test_names__are_forgotten_by_http),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
