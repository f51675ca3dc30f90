/* SPDX-License-Identifier: MIT */
/* Malicious requests in very large numbers, while an ordinary client still gets right answers.
 * TWINBLOOM_TORTURE_SECONDS (default 8): how long connections are opened and closed. */
#include "tests/integration/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/integration/bystander.h"
#include "tests/lib/raw.h"

enum {
    MANY = 10000,
    MEBIBYTE = 1 << 20,
    ANSWER_MS = 15000, /* the longest wait of an ordinary client, on a loaded machine with ASan */
};

static struct temp_redis redis_node;
static struct daemon daemon_under;
static char sanitizer[600];
static int many[MANY];

/* The daemon starts with a low limit of open files, and must raise it. ASan does not hold back freed memory
 * for long, so that the measured memory is what the daemon keeps. */
static const char *const wrapper[] = {"env", sanitizer, "sh", "-c", "ulimit -S -n 1024; exec \"$@\"",
                                      "sh",  NULL};

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    struct rlimit files;
    const char *given = getenv("ASAN_OPTIONS");
    (void)snprintf(sanitizer, sizeof(sanitizer), "ASAN_OPTIONS=%s%squarantine_size_mb=8",
                   given != NULL ? given : "", given != NULL ? ":" : "");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < MANY + 1000)
        fail_msg("this needs %d open files, the system allows %llu", MANY + 1000,
                 (unsigned long long)files.rlim_cur);
    must(temp_redis_start(&redis_node, NULL, &e), e);
    /* The timeouts are long: an add that is repeated after a timeout may find its own bits, and its key is
     * not new. */
    const struct daemon_options o = {.nodes = redis_node.url,
                                     .redis = "timeout = 10s\n",
                                     .service = "max_clients = 11000\noutput_timeout = 2s\ntimeout = 10s\n"};
    must(daemon_prepare(&daemon_under, &o, &e), e);
    daemon_under.wrapper = wrapper;
    must(daemon_launch(&daemon_under, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bool clean = daemon_fini(&daemon_under);
    temp_redis_fini(&redis_node);
    return clean ? 0 : -1;
}

/* --- helpers --- */

static void stand_down(struct bystander *b)
{
    bystander_stop(b);
    assert_true(process_running(&daemon_under.process));
}

static uint64_t resident(void)
{
    char path[64], text[128], *pages = NULL;
    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)daemon_under.process.pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f)); /* the second number: resident pages */
    (void)fclose(f);
    (void)strtoull(text, &pages, 10);
    return strtoull(pages, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Close with a reset, so that no port is kept waiting. */
static void drop(int fd)
{
    const struct linger now = {.l_onoff = 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    raw_close(fd);
}

static int open_one(void)
{
    int fd = raw_open(daemon_under.port);
    if (fd < 0)
        fail_msg("no connection: %s", strerror(errno));
    return fd;
}

static uint64_t next_random(uint64_t *seed) /* splitmix64 */
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t connected_by(struct client *c)
{
    redisReply *r = client_command(c, "INFO clients");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    const char *at = strstr(r->str, "connected_clients:");
    assert_non_null(at);
    int64_t n = strtoll(at + strlen("connected_clients:"), NULL, 10);
    freeReplyObject(r);
    return n;
}

static int64_t connected_clients(void)
{
    struct client c;
    struct error e = {""};
    must(client_open(&c, daemon_under.port, ANSWER_MS, &e), e);
    int64_t n = connected_by(&c);
    client_close(&c);
    return n;
}

static void wait_until_few_are_connected(void)
{
    uint64_t until = clock_mono_us() + 30u * 1000000u;
    int64_t n;
    while ((n = connected_clients()) > 3) {
        if (clock_mono_us() > until)
            fail_msg("%lld clients are still connected", (long long)n);
        clock_sleep_us(50000);
    }
}

/* --- bytes that are no requests --- */

static const char valid[] = "*3\r\n$6\r\nBF.ADD\r\n$1\r\nt\r\n$3\r\nabc\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n"
                            "HELLO 3\r\nMULTI\r\nBF.MADD t a b\r\nEXEC\r\nCLIENT LIST\r\nBF.INFO t\r\n";

/* Make one kind of noise: random bytes, a valid stream with some bytes changed, or random tokens of the
 * protocol. */
static size_t make_noise(uint64_t *seed, unsigned kind, char *out, size_t size)
{
    static const char *const tokens[] = {"*",           "$",        "\r\n",       "-1",
                                         "0",           "3",        "9999999999", "BF.ADD",
                                         "\"",          "\\x",      " ",          "*3\r\n$6\r\nBF.ADD\r\n",
                                         "$1\r\nt\r\n", "PING\r\n", "EXEC\r\n"};
    size_t length = next_random(seed) % size;
    if (kind == 0) {
        for (size_t i = 0; i < length; i++)
            out[i] = (char)next_random(seed);
        return length;
    }
    if (kind == 1) {
        length = sizeof(valid) - 1;
        memcpy(out, valid, length);
        for (unsigned i = 0; i < 4; i++)
            out[next_random(seed) % length] = (char)next_random(seed);
        return length;
    }
    size_t n = 0;
    while (n + 32 < length) {
        const char *t = tokens[next_random(seed) % (sizeof(tokens) / sizeof(tokens[0]))];
        for (; *t != '\0'; t++)
            out[n++] = *t;
    }
    return n;
}

static void test_random_bytes__break_nothing(void **state)
{
    (void)state;
    enum { STREAMS = 3000 };
    struct bystander b;
    uint64_t seed = 20261121;
    bystander_start(&b, daemon_under.port);
    for (unsigned i = 0; i < STREAMS; i++) {
        char noise[2048], reply[4096];
        size_t length = make_noise(&seed, i % 3, noise, sizeof(noise));
        int fd = open_one();
        (void)raw_send(fd, noise, length); /* the daemon may close meanwhile */
        if (i % 2 == 0) {
            (void)shutdown(fd, SHUT_WR);
            while (recv(fd, reply, sizeof(reply), 0) > 0) /* to the end, or the deadline of raw_open() */
                ;
        }
        drop(fd);
    }
    stand_down(&b);
}

/* As a script does that sends its commands through a pipe. */
static void test_requests__are_answered_behind_the_end_of_what_the_client_sends(void **state)
{
    (void)state;
    enum { ADDS = 2000 };
    struct buffer requests = {0}, replies = {0};
    for (unsigned i = 0; i < ADDS; i++) {
        buffer_printf(&requests, "BF.ADD ended %u\r\n", i % 2 == 0 ? 0u : 1u);
        buffer_puts(&replies, i < 2 ? ":1\r\n" : ":0\r\n");
    }
    buffer_puts(&requests, "PING\r\nTB.COUNT ended\r\nBF.MEXISTS ended 0 1\r\nBF.EXISTS ended");
    buffer_puts(&replies, "+PONG\r\n:2\r\n*2\r\n:1\r\n:1\r\n");
    int fd = open_one();
    assert_true(raw_send(fd, buffer_text(&requests), requests.length));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_true(raw_expect(fd, buffer_text(&replies)));
    assert_true(raw_expect_close(fd)); /* the rest of the last request never comes */
    drop(fd);
    buffer_fini(&requests);
    buffer_fini(&replies);
}

static void test_requests__may_be_cut_at_each_byte(void **state)
{
    (void)state;
    static const char request[] = "*3\r\n$9\r\nBF.EXISTS\r\n$4\r\nnone\r\n$5\r\na\r\nbc\r\nECHO \"x y\"\r\n";
    struct bystander b;
    bystander_start(&b, daemon_under.port);
    for (size_t cut = 1; cut < sizeof(request) - 1; cut++) {
        int fd = open_one();
        assert_true(raw_send(fd, request, cut));
        clock_sleep_us(1000); /* so that the parts arrive separately */
        assert_true(raw_send(fd, request + cut, sizeof(request) - 1 - cut));
        if (!raw_expect(fd, ":0\r\n$3\r\nx y\r\n"))
            fail_msg("cut at byte %zu", cut);
        drop(fd);
        fd = open_one(); /* the rest never comes */
        assert_true(raw_send(fd, request, cut));
        drop(fd);
    }
    stand_down(&b);
}

static void test_half_requests__cost_no_more_than_what_was_sent(void **state)
{
    (void)state;
    enum { HALVES = 500 };
    static const char *const halves[] = {"*1048576\r\n", "*3\r\n$6\r\nBF.ADD\r\n$536870912\r\nabc",
                                         "*1048576\r\n$4\r\nPING\r\n$0\r\n\r\n", "BF.ADD half", "*2\r\n$5"};
    struct bystander b;
    uint64_t before = resident();
    bystander_start(&b, daemon_under.port);
    for (size_t i = 0; i < HALVES; i++) {
        many[i] = open_one();
        assert_true(raw_puts(many[i], halves[i % (sizeof(halves) / sizeof(halves[0]))]));
    }
    clock_sleep_us(500000);
    uint64_t after = resident();
    for (size_t i = 0; i < HALVES; i++)
        drop(many[i]);
    stand_down(&b);
    print_message("memory: %.1f, with %d half requests %.1f MiB\n", (double)before / MEBIBYTE, HALVES,
                  (double)after / MEBIBYTE);
    assert_true(after < before + 64u * MEBIBYTE);
}

/* --- slow ones --- */

static void test_a_byte_a_second__is_answered_in_the_end(void **state)
{
    (void)state;
    enum { SLOW = 50 };
    static const char request[] = "PING\r\n";
    struct bystander b;
    bystander_start(&b, daemon_under.port);
    for (size_t i = 0; i < SLOW; i++)
        many[i] = open_one();
    for (size_t at = 0; at < sizeof(request) - 1; at++) {
        for (size_t i = 0; i < SLOW; i++)
            assert_true(raw_send(many[i], request + at, 1));
        clock_sleep_us(1000000);
    }
    for (size_t i = 0; i < SLOW; i++) {
        assert_true(raw_expect(many[i], "+PONG\r\n"));
        drop(many[i]);
    }
    stand_down(&b);
}

/* Send the @length bytes from @at on, again and again, until the socket takes no more. False: the peer has
 * closed. */
static bool push(int fd, const char *bytes, size_t length, size_t *at)
{
    for (;;) {
        ssize_t n = send(fd, bytes + *at, length - *at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        *at = (*at + (size_t)n) % length;
    }
}

static void test_clients_that_never_read__are_cut_and_cost_a_bounded_memory(void **state)
{
    (void)state;
    enum { DEAF = 40, CHUNK = 16384 };
    static char requests[CHUNK + 64];
    size_t at[DEAF] = {0}, cut = 0;
    struct bystander b;
    int head = snprintf(requests, sizeof(requests), "*2\r\n$4\r\nECHO\r\n$%d\r\n", CHUNK);
    memset(requests + head, 'x', CHUNK);
    requests[head + CHUNK] = '\r';
    requests[head + CHUNK + 1] = '\n';
    size_t length = (size_t)head + CHUNK + 2;
    uint64_t before = resident(), most = 0, until = clock_mono_us() + 30u * 1000000u;
    bystander_start(&b, daemon_under.port);
    for (size_t i = 0; i < DEAF; i++) {
        many[i] = open_one();
        const int small = 65536; /* with much less the kernel drops acknowledgements, too */
        (void)setsockopt(many[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    }
    while (cut < DEAF && clock_mono_us() < until) {
        for (size_t i = 0; i < DEAF; i++)
            if (many[i] >= 0 && !push(many[i], requests, length, &at[i])) {
                raw_close(many[i]);
                many[i] = -1;
                cut++;
            }
        uint64_t now = resident();
        most = now > most ? now : most;
        clock_sleep_us(10000);
    }
    for (size_t i = 0; i < DEAF; i++)
        if (many[i] >= 0)
            drop(many[i]);
    stand_down(&b);
    print_message("memory: %.1f, at most %.1f MiB\n", (double)before / MEBIBYTE, (double)most / MEBIBYTE);
    assert_int_equal(cut, DEAF);
    assert_true(most < before + (uint64_t)DEAF * 4 * MEBIBYTE);
}

/* --- many --- */

static void open_many(void)
{
    for (size_t i = 0; i < MANY; i++)
        many[i] = open_one();
}

static void drop_many(void)
{
    for (size_t i = 0; i < MANY; i++)
        drop(many[i]);
}

static void test_ten_thousand_idle_connections__are_all_served(void **state)
{
    (void)state;
    struct bystander b;
    struct client c;
    struct error e = {""};
    bystander_start(&b, daemon_under.port);
    open_many();
    for (size_t i = 0; i < MANY; i++)
        assert_true(raw_puts(many[i], "PING\r\n"));
    for (size_t i = 0; i < MANY; i++)
        if (!raw_expect(many[i], "+PONG\r\n"))
            fail_msg("connection %zu", i);
    assert_true(connected_clients() >= MANY);
    must(client_open(&c, daemon_under.port, ANSWER_MS, &e), e);
    redisReply *r = client_command(&c, "CLIENT LIST");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    assert_true(r->len > (size_t)MANY * 100); /* a line for each client */
    freeReplyObject(r);
    client_close(&c);
    drop_many();
    wait_until_few_are_connected();
    stand_down(&b);
}

static void test_too_many_connections__are_told_so(void **state)
{
    (void)state;
    enum { MAX_CLIENTS = 11000 };
    static int more[MAX_CLIENTS - MANY];
    size_t opened = 0, refused = 0;
    wait_until_few_are_connected();
    open_many();
    while (opened < MAX_CLIENTS - MANY)
        more[opened++] = open_one();
    for (unsigned i = 0; i < 5; i++) {
        int fd = open_one();
        refused += raw_expect(fd, "-ERR max number of clients reached\r\n") && raw_expect_close(fd);
        raw_close(fd);
    }
    drop_many();
    while (opened > 0)
        drop(more[--opened]);
    wait_until_few_are_connected();
    assert_int_equal(refused, 5);
}

/* Redis does not answer, so each request of a client that is gone takes seconds. */
static void test_clients_that_are_gone__make_room_for_others(void **state)
{
    (void)state;
    enum { GONE = 40, MORE = 20, LEFT = 5 };
    static int more[MORE];
    struct client c;
    struct error e = {""};
    wait_until_few_are_connected();
    must(client_open(&c, daemon_under.port, ANSWER_MS, &e), e);
    must(client_ok(&c, &e, "CONFIG SET max_clients 50"), e);
    assert_int_equal(kill(redis_node.process.pid, SIGSTOP), 0);
    for (unsigned i = 0; i < GONE; i++) {
        int fd = open_one();
        assert_true(raw_puts(fd, "BF.INFO slow\r\n"));
        raw_close(fd);
    }
    for (unsigned i = 0; i < MORE; i++)
        more[i] = open_one(); /* the last ones are rejected */
    for (unsigned i = 0; i < MORE; i++)
        drop(more[i]);
    uint64_t end = clock_mono_us() + 5000000;
    int64_t connected = GONE;
    while ((connected = connected_by(&c)) > LEFT && clock_mono_us() < end)
        clock_sleep_us(50000);
    assert_int_equal(kill(redis_node.process.pid, SIGCONT), 0);
    must(client_ok(&c, &e, "CONFIG SET max_clients 11000"), e);
    client_close(&c);
    assert_in_range(connected, 1, LEFT);
}

static void logs_little(const struct daemon *d)
{
    clock_sleep_us(2000000);
    char *log = process_log(&d->process);
    size_t length = strlen(log);
    free(log);
    assert_in_range(length, 1, 64 * 1024);
}

/* Where few files may be open, HTTP leaves enough for Redis and for clients of both kinds. */
static void test_http_connections__leave_files_to_others(void **state)
{
    (void)state;
    enum { CONNECTIONS = 600 };
    static const char *const few[] = {"sh", "-c", "ulimit -n 500; exec \"$@\"", "sh", NULL};
    struct daemon d = {0};
    struct client c, redis;
    struct error e = {""};
    const struct daemon_options o = {.nodes = redis_node.url, .redis = "prefix = few\n"};
    must(daemon_prepare(&d, &o, &e), e);
    d.wrapper = few;
    must(daemon_launch(&d, &e), e);
    must(client_open(&c, d.port, ANSWER_MS, &e), e);
    must(client_open(&redis, redis_node.port, ANSWER_MS, &e), e);
    char *log = process_log(&d.process);
    assert_non_null(strstr(log, "event=file_limit_low max_clients=10000 room_for="));
    free(log);
    must(client_ok(&c, &e, "BF.RESERVE few 0.01 1000"), e);
    for (size_t i = 0; i < CONNECTIONS; i++)
        many[i] = raw_open(d.http_port);
    logs_little(&d);
    freeReplyObject(client_command(&redis, "CLIENT KILL TYPE normal"));
    int64_t added = 0;
    for (uint64_t until = clock_mono_us() + 5000000; added == 0 && clock_mono_us() < until;)
        if (client_integer(&c, &added, &e, "BF.ADD few k") != ERR_OK)
            clock_sleep_us(50000);
    if (added != 1)
        fail_msg("BF.ADD: %s", e.text);
    for (size_t i = 0; i < CONNECTIONS; i++)
        drop(many[i]);
    client_close(&redis);
    client_close(&c);
    assert_true(daemon_fini(&d));
}

/* Open and close connections, with and without a request under way. */
static void churn(uint64_t until, uint64_t *opened)
{
    enum { WAVE = 500 };
    while (clock_mono_us() < until) {
        for (size_t i = 0; i < WAVE; i++) {
            many[i] = open_one();
            if (i % 4 != 0)
                (void)raw_puts(many[i], i % 4 == 1   ? "PING\r\n"
                                        : i % 4 == 2 ? "BF.EXISTS calm x\r\n"
                                                     : "*3\r\n$6");
        }
        for (size_t i = 0; i < WAVE; i++)
            drop(many[i]);
        *opened += WAVE;
    }
}

static unsigned torture_seconds(void)
{
    const char *given = getenv("TWINBLOOM_TORTURE_SECONDS");
    return given == NULL ? 8 : (unsigned)strtoul(given, NULL, 10);
}

static void test_connections_opened_and_closed__leave_memory_flat(void **state)
{
    (void)state;
    struct bystander b;
    uint64_t opened = 0, most = 0;
    bystander_start(&b, daemon_under.port);
    for (unsigned i = 0; i < 3; i++) { /* until the daemon has taken what it keeps for itself */
        open_many();
        uint64_t now = resident();
        most = now > most ? now : most;
        drop_many();
        churn(clock_mono_us() + 1000000, &opened);
        wait_until_few_are_connected();
    }
    uint64_t before = resident();
    churn(clock_mono_us() + (uint64_t)torture_seconds() * 1000000, &opened);
    wait_until_few_are_connected();
    uint64_t after = resident();
    stand_down(&b);
    print_message(
        "30,000 at once, %llu in waves; memory: %.1f at most, %.1f before and %.1f MiB after the last\n",
        (unsigned long long)opened, (double)most / MEBIBYTE, (double)before / MEBIBYTE,
        (double)after / MEBIBYTE);
    assert_true(after < most + 32u * MEBIBYTE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_that_are_gone__make_room_for_others),
        cmocka_unit_test(test_random_bytes__break_nothing),
        cmocka_unit_test(test_requests__are_answered_behind_the_end_of_what_the_client_sends),
        cmocka_unit_test(test_requests__may_be_cut_at_each_byte),
        cmocka_unit_test(test_half_requests__cost_no_more_than_what_was_sent),
        cmocka_unit_test(test_a_byte_a_second__is_answered_in_the_end),
        cmocka_unit_test(test_clients_that_never_read__are_cut_and_cost_a_bounded_memory),
        cmocka_unit_test(test_ten_thousand_idle_connections__are_all_served),
        cmocka_unit_test(test_too_many_connections__are_told_so),
        cmocka_unit_test(test_http_connections__leave_files_to_others),
        cmocka_unit_test(test_connections_opened_and_closed__leave_memory_flat),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
