/* SPDX-License-Identifier: MIT */
/* Limits for what one client may cost others: unread replies, long requests, silence, many requests under
 * way; and no file that can be opened. */
#include "tests/integration/fixture.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/raw.h"

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 1,
                                               .daemons = 1,
                                               .service = "in_flight_max = 16\n"
                                                          "request_max = 64KiB\n"
                                                          "output_timeout = 1s\n"
                                                          "idle_timeout = 2s\n"};

static int open_raw(void)
{
    int fd = raw_open(fixture.daemon[0].port);
    assert_true(fd >= 0);
    return fd;
}

static void still_serves(void)
{
    int fd = open_raw();
    assert_true(raw_puts(fd, "BF.ADD alive x\r\nBF.EXISTS alive x\r\nPING\r\n"));
    char text[64];
    assert_true(raw_read_until(fd, "+PONG\r\n", text, sizeof(text)));
    assert_non_null(strstr(text, ":1\r\n+PONG"));
    raw_close(fd);
}

static void test_in_flight_max__delays_and_drops_nothing(void **state)
{
    (void)state;
    enum { CLIENTS = 20, ADDS = 300 };
    int fds[CLIENTS];
    for (int c = 0; c < CLIENTS; c++) {
        fds[c] = open_raw();
        for (int i = 0; i < ADDS; i++) {
            char line[64];
            (void)snprintf(line, sizeof(line), "BF.ADD flight k%d-%d\r\n", c, i);
            assert_true(raw_puts(fds[c], line));
        }
        assert_true(raw_puts(fds[c], "BF.MEXISTS flight k0-0 k0-1 nothing\r\nECHO end\r\n"));
    }
    char *text = malloc(8 * ADDS);
    assert_non_null(text);
    for (int c = 0; c < CLIENTS; c++) {
        assert_true(raw_read_until(fds[c], "$3\r\nend\r\n", text, 8 * ADDS));
        assert_null(strchr(text, '-')); /* no error */
        unsigned replies = 0;
        for (const char *at = text; (at = strstr(at, "\r\n")) != NULL; at += 2)
            replies++;
        assert_int_equal(replies, ADDS + 4 + 2);
        raw_close(fds[c]);
    }
    free(text);
}

static void test_request_max__ends_the_connection_with_an_error(void **state)
{
    (void)state;
    int fd = open_raw();
    assert_true(raw_puts(fd, "*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$70000\r\n"));
    assert_true(raw_expect(fd, "-ERR Protocol error: too big request\r\n"));
    assert_true(raw_expect_close(fd));
    raw_close(fd);
    /* Many small arguments reach the same limit. */
    fd = open_raw();
    assert_true(raw_puts(fd, "*9000\r\n$4\r\nPING\r\n"));
    for (int i = 0; i < 8000; i++)
        if (send(fd, "$4\r\nabcd\r\n", 10, MSG_NOSIGNAL) != 10)
            break;
    assert_true(raw_expect(fd, "-ERR Protocol error: too big request\r\n"));
    raw_close(fd);
    still_serves();
}

static void test_transaction__has_no_more_bytes_than_a_request(void **state)
{
    (void)state;
    static char line[1024 + 64];
    int fd = open_raw();
    assert_true(raw_puts(fd, "MULTI\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n"));
    (void)snprintf(line, sizeof(line), "BF.ADD bounded %01024d\r\n", 7);
    unsigned queued = 0;
    for (char c = '+'; c == '+' && queued < 100;) { /* 64 KiB / 1 KiB, with the array of arguments */
        char reply[256];
        assert_true(raw_puts(fd, line));
        assert_true(raw_read_until(fd, "\r\n", reply, sizeof(reply)));
        c = reply[0];
        if (c == '+')
            queued++;
        else
            assert_string_equal(reply, "-RANGE the transaction has more than 65536 bytes (request_max)\r\n");
    }
    assert_in_range(queued, 50, 64);
    assert_true(raw_puts(fd, "PING\r\nEXEC\r\nBF.CARD bounded\r\n"));
    assert_true(
        raw_expect(fd, "+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n"));
    assert_true(raw_expect(fd, ":0\r\n"));
    /* The next transaction starts empty. */
    assert_true(raw_puts(fd, "MULTI\r\n"));
    for (unsigned i = 0; i < queued; i++)
        assert_true(raw_puts(fd, line));
    assert_true(raw_puts(fd, "DISCARD\r\nECHO end\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n"));
    for (unsigned i = 0; i < queued; i++)
        assert_true(raw_expect(fd, "+QUEUED\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n$3\r\nend\r\n"));
    raw_close(fd);
    still_serves();
}

/* Requests without end, whose replies are not read. */
static void test_client__that_reads_no_replies_is_cut(void **state)
{
    (void)state;
    static char question[4096];
    size_t length = (size_t)snprintf(question, sizeof(question), "BF.MEXISTS nothing");
    while (length < sizeof(question) - 4) {
        memcpy(question + length, " a", 2);
        length += 2;
    }
    memcpy(question + length, "\r\n", 2);
    length += 2;
    int fd = open_raw(), small = 4096;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    uint64_t end = clock_mono_us() + 30000000;
    bool cut = false;
    while (!cut && clock_mono_us() < end) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        (void)poll(&p, 1, 100);
        cut = (p.revents & (POLLERR | POLLHUP)) != 0;
        if (!cut && (p.revents & POLLOUT) != 0)
            cut = send(fd, question, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && clock_mono_us() < end &&
                  (p.revents & POLLHUP) != 0;
    }
    assert_true(cut);
    raw_close(fd);
    still_serves();
}

static void test_client__that_is_idle_is_closed_and_one_that_is_not_stays(void **state)
{
    (void)state;
    int idle = open_raw(), busy = open_raw();
    for (int i = 0; i < 8; i++) {
        assert_true(raw_puts(busy, "PING\r\n"));
        assert_true(raw_expect(busy, "+PONG\r\n"));
        clock_sleep_us(500000);
    }
    assert_true(raw_expect_close(idle));
    assert_true(raw_puts(busy, "PING\r\n"));
    assert_true(raw_expect(busy, "+PONG\r\n"));
    raw_close(idle);
    raw_close(busy);
}

/* Seconds until the system asks whether the peer of the coordinator's end of @fd is there; -1: it will not.
 */
static double asked_in(int fd)
{
    struct sockaddr_in own = {0};
    socklen_t size = sizeof(own);
    char line[512], local[8], remote[8];
    double seconds = -1;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &size), 0);
    (void)snprintf(local, sizeof(local), ":%04X ", fixture.daemon[0].port);
    (void)snprintf(remote, sizeof(remote), ":%04X ", ntohs(own.sin_port));
    FILE *f = fopen("/proc/net/tcp", "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        const char *at = strstr(line, local);
        at = at == NULL ? NULL : strstr(at, remote);
        at = at == NULL ? NULL : strstr(at, " 02:"); /* of its timers, that for keepalive; then its ticks */
        if (at != NULL)
            seconds = (double)strtoul(at + 4, NULL, 16) / (double)sysconf(_SC_CLK_TCK);
    }
    (void)fclose(f);
    return seconds;
}

/* As Redis does by default. */
static void test_client__that_is_silent_is_asked_whether_it_is_there(void **state)
{
    (void)state;
    int fd = open_raw();
    assert_true(raw_puts(fd, "PING\r\n"));
    assert_true(raw_expect(fd, "+PONG\r\n"));
    double seconds = asked_in(fd);
    raw_close(fd);
    if (!(seconds > 0 && seconds <= 300))
        fail_msg("asked in %g s", seconds);
}

static uint64_t processor_us(const struct daemon *d)
{
    clockid_t clock;
    struct timespec used;
    assert_int_equal(clock_getcpuclockid(d->process.pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

static size_t bytes_logged(const struct daemon *d)
{
    char *log = process_log(&d->process);
    size_t n = strlen(log);
    free(log);
    return n;
}

static unsigned times_logged(const struct daemon *d, const char *event)
{
    unsigned n = 0;
    char *log = process_log(&d->process);
    for (const char *at = log; (at = strstr(at, event)) != NULL; at++)
        n++;
    free(log);
    return n;
}

/* The daemon says so once for each kind of clients, and computes little until files can be opened. */
static void test_new_connections__wait_while_no_file_can_be_opened(void **state)
{
    (void)state;
    const struct daemon *d = &fixture.daemon[0];
    struct rlimit usual;
    char answer[4096];
    int served = open_raw();
    assert_true(raw_puts(served, "PING\r\n") && raw_expect(served, "+PONG\r\n"));
    assert_int_equal(prlimit(d->process.pid, RLIMIT_NOFILE, NULL, &usual), 0);
    const struct rlimit none = {.rlim_cur = 20, .rlim_max = usual.rlim_max};
    assert_int_equal(prlimit(d->process.pid, RLIMIT_NOFILE, &none, NULL), 0);
    int fd = open_raw(), http = raw_open(d->http_port);
    assert_true(raw_puts(fd, "PING\r\n"));
    assert_true(raw_puts(http, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    uint64_t before = processor_us(d);
    size_t bytes = bytes_logged(d);
    bool is_served = true;
    for (unsigned i = 0; i < 20 && is_served; i++) {
        clock_sleep_us(100 * 1000);
        is_served = raw_puts(served, "PING\r\n") && raw_expect(served, "+PONG\r\n");
    }
    uint64_t took = processor_us(d) - before;
    assert_int_equal(prlimit(d->process.pid, RLIMIT_NOFILE, &usual, NULL), 0); /* whatever follows */
    assert_true(is_served);
    assert_in_range(took, 0, 1000 * 1000);
    assert_in_range(bytes_logged(d) - bytes, 0, 4096);
    assert_int_equal(times_logged(d, "event=accept_failed"), 2);
    assert_int_equal(times_logged(d, "event=http_connections_"), 0);
    assert_true(raw_expect(fd, "+PONG\r\n"));
    assert_true(raw_read_all(http, answer, sizeof(answer)));
    assert_int_equal(strncmp(answer, "HTTP/1.1 200 ", 13), 0);
    raw_close(served);
    raw_close(fd);
    raw_close(http);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_flight_max__delays_and_drops_nothing),
        cmocka_unit_test(test_request_max__ends_the_connection_with_an_error),
        cmocka_unit_test(test_transaction__has_no_more_bytes_than_a_request),
        cmocka_unit_test(test_client__that_reads_no_replies_is_cut),
        cmocka_unit_test(test_client__that_is_silent_is_asked_whether_it_is_there),
        cmocka_unit_test(test_new_connections__wait_while_no_file_can_be_opened),
        cmocka_unit_test(test_client__that_is_idle_is_closed_and_one_that_is_not_stays),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
