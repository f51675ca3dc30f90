/* SPDX-License-Identifier: MIT */
/* The memory that clients cost the daemon is bounded, however much they send: clients that have not logged
 * in, and all clients together. */
#include "tests/integration/memory.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tests/lib/certificates.h"
#include "tests/lib/raw.h"

enum { STRANGERS = 32, STRANGER_BYTES = 64 * 1024, SLACK = 2 * 1024 * 1024, CLOSED_US = 30 * 1000 * 1000 };

static struct fixture fixture;
static char directory[PATH_MAX]; /* of certificates */
static uint16_t tls_port;

/* Copy @text without its terminating NUL. */
static void put(char *to, const char *text)
{
    while (*text != '\0')
        *to++ = *text++;
}

static int setup(void **state)
{
    (void)state;
    static char service[4 * PATH_MAX];
    struct error e = {""};
    memory_count_what_is_held();
    must(process_make_directory(directory, "memory", &e), e);
    must(certificates_make(directory, &e), e);
    tls_port = process_free_port();
    (void)snprintf(service, sizeof(service),
                   "client_memory_max = 40MiB\nlisten_tls = 127.0.0.1:%u\ntls_cert = %s/redis.crt\n"
                   "tls_key = %s/redis.key\ntls_ca = %s/ours.crt\ntls_client_auth = optional\n",
                   tls_port, directory, directory, directory);
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .daemons = 1, .service = service}) ==
                   0
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    process_remove_directory(directory);
    return fixture_stop(&fixture);
}

/* For a test with strangers, set a password, so that clients have to log in. A failed test must not affect
 * the others. */
static int set_password(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "CONFIG SET password s3cret");
    return 0;
}

static int clear_password(void **state)
{
    (void)state;
    fixture_reconnect(&fixture, 0);
    fixture_ask(&fixture, 0, "AUTH s3cret");
    const char *const none[] = {"CONFIG", "SET", "password", ""};
    freeReplyObject(client_argv(&fixture.client[0], 4, none, (const size_t[]){6, 3, 8, 0}));
    return 0;
}

/* On the port for Redis clients or for HTTP. The clients have an address of their own, as wrong passwords
 * delay the next login from it. */
static void costs_little_at(uint16_t port, const char *first, const char *again, size_t again_length)
{
    int fds[STRANGERS];
    size_t before = memory_at_rest(&fixture);
    memory_reset_peak(&fixture);
    for (size_t i = 0; i < STRANGERS; i++) {
        fds[i] = raw_open_from("127.0.0.2", port);
        assert_true(fds[i] >= 0);
    }
    memory_pour(fds, STRANGERS, first, again, again_length);
    size_t peak = memory_peak(&fixture), grown = peak > before ? peak - before : 0;
    if (grown > (size_t)STRANGERS * STRANGER_BYTES + SLACK)
        fail_msg("%.20s: %d connections cost %zu KiB, %zu KiB each", first[0] != '\0' ? first : again,
                 STRANGERS, grown / 1024, grown / STRANGERS / 1024);
    for (size_t i = 0; i < STRANGERS; i++)
        raw_close(fds[i]);
}

static void costs_little(const char *first, const char *again, size_t again_length)
{
    costs_little_at(fixture.daemon[0].port, first, again, again_length);
}

static void test_stranger__costs_little_whatever_it_sends(void **state)
{
    (void)state;
    static char bytes[1 << 16], bulk[16384 + 64];
    costs_little("PING\r\n", "PING\r\n", 6); /* the first time includes what a process needs only once */
    size_t length = 0;
    while (length + 6 <= sizeof(bytes)) {
        put(bytes + length, "PING\r\n");
        length += 6;
    }
    costs_little("", bytes, length);
    costs_little("AUTH wrong\r\n", bytes, length);
    memset(bytes, 'x', sizeof(bytes));
    costs_little("", bytes, sizeof(bytes)); /* a line without an end */
    costs_little("*", "1", 1);              /* a header without an end */
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = i % 2 == 0 ? 'x' : ' ';
    bytes[8000] = '\n';
    costs_little("", bytes, sizeof(bytes)); /* a line of many words */
    int n = snprintf(bulk, sizeof(bulk), "$16384\r\n");
    memset(bulk + n, 'x', 16384);
    put(bulk + n + 16384, "\r\n");
    costs_little("*10\r\n", bulk, (size_t)n + 16384 + 2);
}

/* Write a ClientHello with an extension of @padding bytes, in records of at most @record bytes. Returns the
 * length. */
static size_t make_hello(uint8_t *out, size_t padding, size_t record)
{
    static const uint8_t offer[] = {0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0}; /* of TLS 1.2 */
    static const uint8_t extensions[] = {0, 10, 0, 4, 0, 2, 0, 23, 0, 13, 0, 6, 0, 4, 4, 3, 4, 1};
    static uint8_t hello[1 << 17];
    size_t n = 4, extended = sizeof(extensions) + 4 + padding, length = 0;
    memset(hello, 0, sizeof(hello));
    hello[n] = hello[n + 1] = 3;
    n += 2 + 32 + 1; /* the random bytes, and no session */
    memcpy(hello + n, offer, sizeof(offer));
    n += sizeof(offer);
    hello[n++] = (uint8_t)(extended >> 8);
    hello[n++] = (uint8_t)extended;
    memcpy(hello + n, extensions, sizeof(extensions));
    n += sizeof(extensions);
    hello[n + 1] = 21; /* padding */
    hello[n + 2] = (uint8_t)(padding >> 8);
    hello[n + 3] = (uint8_t)padding;
    n += 4 + padding;
    hello[0] = 1;
    hello[1] = (uint8_t)((n - 4) >> 16);
    hello[2] = (uint8_t)((n - 4) >> 8);
    hello[3] = (uint8_t)(n - 4);
    for (size_t from = 0; from < n; from += record) {
        size_t piece = n - from < record ? n - from : record;
        const uint8_t head[] = {0x16, 3, 1, (uint8_t)(piece >> 8), (uint8_t)piece};
        memcpy(out + length, head, sizeof(head));
        memcpy(out + length + sizeof(head), hello + from, piece);
        length += sizeof(head) + piece;
    }
    return length;
}

/* A connection whose small buffers leave to the daemon what is not read. */
static int open_narrow(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int segment = 88, room = 2048;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* How many of the connections are not closed. */
static size_t open_of(const int *fds, size_t count)
{
    size_t open = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t answer[4096];
        ssize_t n = 1;
        while (n > 0)
            n = recv(fds[i], answer, sizeof(answer), MSG_DONTWAIT);
        open += n < 0 && errno == EAGAIN;
    }
    return open;
}

enum fate { STAY, CLOSED, EITHER };

/* Send the bytes on many connections, and wait. */
static void many_cost_little(uint16_t port, const char *what, const void *bytes, size_t length,
                             enum fate fate)
{
    int fds[STRANGERS * 4];
    size_t count = sizeof(fds) / sizeof(fds[0]), before = memory_at_rest(&fixture);
    memory_reset_peak(&fixture);
    for (size_t i = 0; i < count; i++) {
        fds[i] = open_narrow(port);
        (void)raw_send(fds[i], bytes, length);
    }
    clock_sleep_us(1000000);
    size_t open = open_of(fds, count);
    for (uint64_t until = clock_mono_us() + CLOSED_US;
         fate == CLOSED && open > 0 && clock_mono_us() < until;) {
        clock_sleep_us(20000);
        open = open_of(fds, count);
    }
    size_t peak = memory_peak(&fixture), grown = peak > before ? peak - before : 0;
    for (size_t i = 0; i < count; i++)
        raw_close(fds[i]);
    if ((fate == STAY && open != count) || (fate == CLOSED && open != 0))
        fail_msg("%s: %zu of %zu connections are open", what, open, count);
    if (grown > count * STRANGER_BYTES + SLACK)
        fail_msg("%s: %zu connections cost %zu KiB each", what, count, grown / count / 1024);
}

static void test_stranger__costs_little_in_a_handshake(void **state)
{
    (void)state;
    enum { RECORD = 16384, LARGEST = 131396 };
    static uint8_t bytes[1 << 18];
    static const uint8_t announced[] = {0x16,         3, 1, 0, 4, 1, LARGEST >> 16, LARGEST >> 8 & 255,
                                        LARGEST & 255};
    many_cost_little(tls_port, "a record announced", "\x16\3\1\x40", 5, STAY);
    many_cost_little(tls_port, "a usual hello", bytes, make_hello(bytes, 200, RECORD), STAY);
    many_cost_little(tls_port, "a large hello", bytes, make_hello(bytes, 16000, RECORD), STAY);
    many_cost_little(tls_port, "a hello announced", announced, sizeof(announced), CLOSED);
    many_cost_little(tls_port, "the largest hello", bytes, make_hello(bytes, 65000, RECORD), CLOSED);
    many_cost_little(tls_port, "a hello in pieces", bytes, make_hello(bytes, 65000, 500), CLOSED);
}

enum { MIB = 1024 * 1024 };

/* Send an ECHO of @mib MiB, without its last byte and the line's end unless @all. */
static int begin_echo(int mib, bool all)
{
    char head[64];
    size_t length = (size_t)mib * MIB;
    char *bytes = malloc(length);
    assert_non_null(bytes);
    memset(bytes, 'x', length);
    int fd = raw_open(fixture.daemon[0].port);
    (void)snprintf(head, sizeof(head), "*2\r\n$4\r\nECHO\r\n$%zu\r\n", length);
    bool sent = raw_puts(fd, head) && raw_send(fd, bytes, length - 1) && (!all || raw_puts(fd, "x\r\n"));
    free(bytes);
    return sent || !all ? fd : -1;
}

static bool ends_echo(int fd, int mib)
{
    static char piece[1 << 16];
    size_t left = (size_t)mib * MIB + sizeof("$1000000\r\n\r\n") - 1;
    ssize_t n = 1;
    for (; left > 0 && n > 0; left -= n > 0 ? (size_t)n : 0)
        n = recv(fd, piece, left < sizeof(piece) ? left : sizeof(piece), 0);
    return left == 0;
}

static void test_client__its_large_replies_are_not_kept(void **state)
{
    (void)state;
    enum { CLIENTS = 10, ECHOED = 6 };
    int fds[CLIENTS];
    size_t before = memory_at_rest(&fixture);
    for (size_t i = 0; i < CLIENTS; i++) {
        fds[i] = begin_echo(ECHOED, true);
        assert_true(ends_echo(fds[i], ECHOED));
    }
    size_t after = memory_now(&fixture);
    if (after > before + 2 * ECHOED * MIB)
        fail_msg("%d idle clients keep %zu MiB", CLIENTS, (after - before) / MIB);
    for (size_t i = 0; i < CLIENTS; i++)
        raw_close(fds[i]);
}

static void test_clients__the_largest_is_cut_when_all_hold_too_much(void **state)
{
    (void)state;
    enum { SMALL = 4, CLIENTS = 3 };
    int fds[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++)
        fds[i] = begin_echo(SMALL, false);
    int large = begin_echo(60, false);
    char byte;
    ssize_t n = recv(large, &byte, 1, 0);
    assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
    raw_close(large);
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_true(raw_puts(fds[i], "x\r\n"));
        assert_true(ends_echo(fds[i], SMALL));
        raw_close(fds[i]);
    }
}

/* Many clients, none of which is large: those that hold most are closed until the rest fits. */
static void test_clients__many_are_bounded_together(void **state)
{
    (void)state;
    enum { CLIENTS = 40 };
    int fds[CLIENTS], open = 0;
    size_t before = memory_at_rest(&fixture);
    memory_reset_peak(&fixture);
    for (size_t i = 0; i < CLIENTS; i++)
        fds[i] = begin_echo(4, false);
    clock_sleep_us(300000); /* until all data have arrived */
    size_t grown = memory_peak(&fixture) - before;
    if (grown > 2 * 40 * (size_t)MIB)
        fail_msg("%d clients cost %zu MiB", CLIENTS, grown / MIB);
    for (size_t i = 0; i < CLIENTS; i++) {
        open += raw_puts(fds[i], "x\r\n") && ends_echo(fds[i], 4);
        raw_close(fds[i]);
    }
    assert_in_range(open, 1, CLIENTS - 10);
}

#define HEAD "POST /v1/filters/f/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

/* A page that needs no login, and all that is read ahead of the next request. */
static void test_http__pages_that_are_not_read_cost_little(void **state)
{
    (void)state;
    static const char get[] = "GET /docs/decisions.md HTTP/1.1\r\nHost: x\r\n\r\n";
    static char bytes[20000];
    memset(bytes, 'x', sizeof(bytes));
    put(bytes, get);
    many_cost_little(fixture.daemon[0].http_port, get, bytes, sizeof(bytes), EITHER);
}

static void test_http__bodies_of_strangers_are_not_kept(void **state)
{
    (void)state;
    static char bytes[1 << 16];
    static const char livez[] = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    uint16_t port = fixture.daemon[0].http_port;
    memset(bytes, ' ', sizeof(bytes));
    costs_little_at(port, livez, livez, sizeof(livez) - 1);
    costs_little_at(port, HEAD "Content-Length: 16000000\r\n\r\n", bytes, sizeof(bytes));
    put(bytes, "fff8\r\n");
    put(bytes + sizeof(bytes) - 2, "\r\n");
    costs_little_at(port, HEAD "Transfer-Encoding: chunked\r\n\r\n", bytes, sizeof(bytes));
    costs_little_at(port, HEAD "Authorization: Basic ZGVmYXVsdDp4\r\nTransfer-Encoding: chunked\r\n\r\n",
                    bytes, sizeof(bytes));
    costs_little_at(port, "GET /livez HTTP/1.1\r\nHost: x\r\n", "a:\r\n", 4);
    costs_little_at(port, "GET /", "a", 1);
}

/* Without logins all bodies together have a bound, and their memory is released. */
static void test_http__bodies_in_chunks_are_bounded_together(void **state)
{
    (void)state;
    enum { SENDERS = 60, BOUND = 4 * 16 * MIB + MIB };
    static char chunk[1 << 16];
    int fds[SENDERS];
    memset(chunk, ' ', sizeof(chunk));
    put(chunk, "fff8\r\n");
    put(chunk + sizeof(chunk) - 2, "\r\n");
    size_t before = memory_at_rest(&fixture);
    memory_reset_peak(&fixture);
    for (size_t i = 0; i < SENDERS; i++)
        fds[i] = raw_open(fixture.daemon[0].http_port);
    memory_pour(fds, SENDERS, HEAD "Transfer-Encoding: chunked\r\n\r\n", chunk, sizeof(chunk));
    size_t grown = memory_peak(&fixture) - before;
    for (size_t i = 0; i < SENDERS; i++)
        raw_close(fds[i]);
    if (grown > 2 * BOUND) /* a growing body exists twice for a moment, and pages are counted late */
        fail_msg("%d connections cost %zu MiB", SENDERS, grown / MIB);
    uint64_t end = clock_mono_us() + 10000000;
    while (memory_now(&fixture) > before + 8 * MIB && clock_mono_us() < end)
        clock_sleep_us(50000);
    if (memory_now(&fixture) > before + 8 * MIB)
        fail_msg("%zu MiB are not given back", (memory_now(&fixture) - before) / MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stranger__costs_little_whatever_it_sends, set_password,
                                        clear_password),
        cmocka_unit_test(test_stranger__costs_little_in_a_handshake),
        cmocka_unit_test(test_client__its_large_replies_are_not_kept),
        cmocka_unit_test(test_clients__the_largest_is_cut_when_all_hold_too_much),
        cmocka_unit_test(test_clients__many_are_bounded_together),
        cmocka_unit_test(test_http__pages_that_are_not_read_cost_little),
        cmocka_unit_test_setup_teardown(test_http__bodies_of_strangers_are_not_kept, set_password,
                                        clear_password),
        cmocka_unit_test(test_http__bodies_in_chunks_are_bounded_together),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
