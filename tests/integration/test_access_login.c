/* SPDX-License-Identifier: MIT */
/* Before a login: passwords that take long to verify, and limits for clients that are not logged in. */
#include "tests/integration/access.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/lib/raw.h"

enum { TRIES = 20, SLOW_US = 150000 /* how long the password "slow" takes at least */ };

/* Whether @fd has data, or is at its end. */
static bool has_come(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

/* Send @request with a slow AUTH on @fd, and PINGs by @other until the AUTH is answered. Returns how many
 * PINGs were answered before that. */
static unsigned pings_beside(int fd, struct client *other, const char *request, uint64_t *longest)
{
    unsigned answered = 0;
    *longest = 0;
    assert_true(raw_puts(fd, request));
    for (;;) { /* both clients have the one worker */
        uint64_t asked = clock_mono_us();
        access_gives(other, "PING", "PONG");
        uint64_t took = clock_mono_us() - asked;
        if (has_come(fd))
            return answered;
        answered++;
        *longest = took > *longest ? took : *longest;
    }
}

/* Try repeatedly, as a busy machine may delay a client now and then. */
static void test_slow_password__stalls_nobody_else(void **state)
{
    (void)state;
    struct client other = {0};
    uint64_t longest, took;
    unsigned tries = 0;
    access_log_in(&other, "chief");
    int fd = raw_open(access_fixture.daemon[0].port);
    uint64_t began = clock_mono_us();
    assert_in_range(pings_beside(fd, &other, "AUTH slow slow\r\nPING\r\nACL WHOAMI\r\n", &longest), 5,
                    UINT_MAX);
    assert_true(clock_mono_us() - began >= SLOW_US);
    assert_true(raw_expect(fd, "+OK\r\n+PONG\r\n$4\r\nslow\r\n"));
    while (longest >= SLOW_US / 2 && ++tries < TRIES) {
        assert_in_range(pings_beside(fd, &other, "AUTH slow wrong\r\n", &longest), 5, UINT_MAX);
        assert_true(raw_expect(fd, "-" WRONGPASS "\r\n"));
    }
    assert_true(longest < SLOW_US / 2);
    tries = 0;
    do {
        began = clock_mono_us();
        assert_true(raw_puts(fd, "AUTH slow slow\r\n")); /* from remembered passwords */
        assert_true(raw_expect(fd, "+OK\r\n"));
        took = clock_mono_us() - began;
    } while (took >= SLOW_US / 2 && ++tries < TRIES);
    assert_true(took < SLOW_US / 2);
    raw_close(fd);
    client_close(&other);
}

static uint64_t log_in_from(const char *address)
{
    int fd = raw_open_from(address, access_fixture.daemon[0].port);
    uint64_t began = clock_mono_us();
    assert_true(raw_puts(fd, "AUTH slow slow\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n"));
    uint64_t took = clock_mono_us() - began;
    raw_close(fd);
    return took;
}

/* A login that took @beside is at most five times as long as it takes @alone, unless the machine is busy. */
static void is_not_held_up(uint64_t beside, uint64_t alone)
{
    if (beside > 1000000 && beside > 5 * alone)
        fail_msg("%llu us, and %llu us alone", (unsigned long long)beside, (unsigned long long)alone);
}

/* A client that goes while its password waits costs no hash. */
static void test_slow_password__its_client_may_go_away(void **state)
{
    (void)state;
    enum { GONE = 16 };
    int fds[GONE];
    uint64_t alone = log_in_from("127.0.0.3");
    access_reload(SERVICE, FILTERS READER WRITER CHIEF SLOW "# nothing is remembered\n");
    for (int i = 0; i < GONE; i++) {
        char address[24]; /* none of them is delayed, and each has its turn before the last one */
        (void)snprintf(address, sizeof(address), "127.0.1.%d", i + 1);
        fds[i] = raw_open_from(address, access_fixture.daemon[0].port);
        assert_true(raw_puts(fds[i], "AUTH slow wrong\r\n"));
    }
    clock_sleep_us(20000);
    for (int i = 0; i < GONE; i++)
        raw_close(fds[i]);
    is_not_held_up(log_in_from("127.0.2.1"), alone);
    access_gives(&access_fixture.client[0], "PING", "PONG");
}

/* A login is refused if its password was right when it was sent, but has changed before it is verified. */
static void test_slow_password__that_changes_meanwhile_is_refused(void **state)
{
    (void)state;
    enum { BEFORE = 6 }; /* takes the one verifying thread a second at least */
    int fds[BEFORE + 1];
    access_reload(SERVICE, FILTERS READER WRITER CHIEF SLOW "# nothing is remembered\n");
    for (int i = 0; i <= BEFORE; i++) {
        char address[24]; /* each address has its turn before the last one */
        (void)snprintf(address, sizeof(address), "127.0.1.%d", i + 1);
        fds[i] = raw_open_from(address, access_fixture.daemon[0].port);
        assert_true(raw_puts(fds[i], i < BEFORE ? "AUTH slow wrong\r\n" : "AUTH slow slow\r\n"));
        clock_sleep_us(i < BEFORE ? 0 : SLOW_US);
    }
    access_reload(SERVICE, FILTERS CHIEF "[user slow]\npassword = " READER_HASH "\nroles = read\n");
    assert_true(raw_expect(fds[BEFORE], "-" WRONGPASS "\r\n"));
    assert_true(raw_puts(fds[BEFORE], "BF.EXISTS alpha x\r\nAUTH slow reader\r\n"));
    assert_true(raw_expect(fds[BEFORE], "-" NOAUTH "\r\n+OK\r\n"));
    for (int i = 0; i <= BEFORE; i++)
        raw_close(fds[i]);
}

/* Many wrong passwords from one address, for an existing user, do not delay a login from another address. */
static void test_login__is_held_up_by_no_attacker_elsewhere(void **state)
{
    (void)state;
    enum { ATTACKERS = 40, GUESSES = 50 };
    int fds[ATTACKERS];
    struct buffer guesses = {0};
    for (int i = 0; i < GUESSES; i++)
        buffer_printf(&guesses, "AUTH slow guess%d\r\n", i);
    uint64_t alone = log_in_from("127.0.0.3");
    access_reload(SERVICE, FILTERS READER WRITER CHIEF SLOW "# nothing is remembered\n");
    for (int i = 0; i < ATTACKERS; i++) {
        /* not the address of later tests: names may share a place among an address' failures */
        fds[i] = raw_open_from("127.0.0.4", access_fixture.daemon[0].port);
        assert_true(raw_puts(fds[i], buffer_text(&guesses)));
    }
    clock_sleep_us(50000); /* until they wait for their turns */
    is_not_held_up(log_in_from("127.0.0.2"), alone);
    access_gives(&access_fixture.client[0], "PING", "PONG");
    for (int i = 0; i < ATTACKERS; i++)
        raw_close(fds[i]);
    buffer_fini(&guesses);
}

/* A wrong bearer token counts as a guess of the default user's password if that is plain text. */
static void test_login__guesses_of_plain_text_wait(void **state)
{
    (void)state;
    char answer[16384];
    access_reload(SERVICE "password = plain\n", FILTERS CHIEF);
    uint64_t began = clock_mono_us();
    for (int i = 0; i < 8; i++)
        assert_int_equal(
            access_http_status("GET", "/v1/filters/alpha", "Bearer plaim", answer, sizeof(answer)), 401);
    assert_int_equal(access_http_status("GET", "/v1/filters/alpha", "Bearer plain", answer, sizeof(answer)),
                     200);
    assert_true(clock_mono_us() - began >= 700000); /* delays of 100, 200 and 400 ms */
    int fd = raw_open_from("127.0.0.2", access_fixture.daemon[0].port);
    assert_true(raw_puts(fd, "AUTH plaim\r\nAUTH plain\r\n"));
    assert_true(raw_expect(fd, "-" WRONGPASS "\r\n+OK\r\n"));
    raw_close(fd);
}

static void test_slow_password__does_not_hold_up_the_end(void **state)
{
    (void)state;
    struct error e = {""};
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = raw_open(access_fixture.daemon[0].port);
        assert_true(raw_puts(fds[i], "AUTH slow wrong\r\n"));
    }
    clock_sleep_us(50000);
    assert_true(daemon_stop(&access_fixture.daemon[0], 20000));
    for (int i = 0; i < 8; i++)
        raw_close(fds[i]);
    must(daemon_launch(&access_fixture.daemon[0], &e), e);
    client_close(&access_fixture.client[0]);
    access_log_in(&access_fixture.client[0], "chief");
}

static void test_http__a_slow_password_stalls_nobody(void **state)
{
    (void)state;
    static const char slow[] =
        "GET /v1/filters HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2xvdzpzbG93\r\n\r\n";
    static const char wrong[] =
        "GET /v1/filters HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2xvdzp3cm9uZw==\r\n\r\n";
    enum { GONE = 2 }; /* clients that close; their passwords are verified first, as they may still read */
    char answer[16384];
    int fd, gone[GONE];
    for (int i = 0; i < GONE; i++) {
        gone[i] = raw_open(access_fixture.daemon[0].http_port);
        assert_true(raw_puts(gone[i], wrong));
    }
    clock_sleep_us(20000);
    fd = raw_open(access_fixture.daemon[0].http_port);
    assert_true(raw_puts(fd, slow));
    for (int i = 0; i < GONE; i++)
        raw_close(gone[i]);
    assert_int_equal(access_http_status("GET", "/v1/filters/alpha", "Bearer abc", answer, sizeof(answer)),
                     200);
    assert_false(has_come(fd)); /* the request was not answered yet */
    assert_true(raw_read_until(fd, "\r\n", answer, sizeof(answer)));
    assert_string_equal(answer, "HTTP/1.1 200 OK\r\n");
    raw_close(fd);
}

static void answers_and_closes(const char *bytes, const char *answer)
{
    int fd = raw_open(access_fixture.daemon[0].port);
    assert_true(raw_puts(fd, bytes));
    assert_true(raw_expect(fd, answer));
    assert_true(raw_expect_close(fd));
    raw_close(fd);
}

static void test_stranger__may_send_little(void **state)
{
    (void)state;
    answers_and_closes("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n");
    answers_and_closes("*2\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n");
    answers_and_closes("*1048577\r\n", "-ERR Protocol error: invalid multibulk length\r\n");
    int fd = raw_open(access_fixture.daemon[0].port);
    assert_true(
        raw_puts(fd, "*3\r\n$4\r\nAUTH\r\n$6\r\nreader\r\n$6\r\nreader\r\n*12\r\n$10\r\nBF.MEXISTS\r\n$5\r\n"
                     "alpha\r\n"));
    for (int i = 0; i < 10; i++)
        assert_true(raw_puts(fd, "$4\r\nnone\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n*10\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n"));
    raw_close(fd);
}

static void until_cut(struct client *c)
{
    redisReply *r;
    for (uint64_t until = clock_mono_us() + ACCESS_REPLY_MS * 1000ull;
         (r = client_command(c, "PING")) != NULL;) {
        assert_string_equal(r->str, NOAUTH);
        freeReplyObject(r);
        assert_true(clock_mono_us() < until);
        clock_sleep_us(100000);
    }
}

static void test_stranger__is_cut_after_a_while(void **state)
{
    (void)state;
    struct client reader = {0};
    access_reload(SERVICE "login_timeout = 500ms\n", FILTERS READER CHIEF);
    access_log_in(&reader, "reader");
    int fd = raw_open(access_fixture.daemon[0].port);
    uint64_t began = clock_mono_us();
    assert_true(raw_puts(fd, "PING\r\n"));
    assert_true(raw_expect(fd, "-" NOAUTH "\r\n"));
    assert_true(raw_expect_close(fd));
    uint64_t took = clock_mono_us() - began;
    assert_true(took >= 400000);
    raw_close(fd);
    access_gives(&reader, "PING", "PONG");
    access_reload(SERVICE "login_timeout = 500ms\n", FILTERS CHIEF);
    until_cut(&reader); /* the reader is not logged in any more */
    client_close(&reader);
    access_reload(SERVICE "login_timeout = 500ms\n", FILTERS); /* no password: nobody has to log in */
    access_open(&reader);
    clock_sleep_us(2000000);
    access_gives(&reader, "PING", "PONG");
    client_close(&reader);
}

static void test_start__is_refused_where_strangers_could_come_in(void **state)
{
    (void)state;
    struct daemon d;
    struct error e = {""};
    char *output = NULL;
    int status = -1;
    const struct daemon_options o = access_options("listen_tls = 0.0.0.0:1\ntls_cert = x\ntls_key = y\n", "");
    must(daemon_prepare(&d, &o, &e), e);
    const char *const argv[] = {"sh", "-c", "\"$0\" -c \"$1\"", TWINBLOOMD, d.config, NULL};
    must(process_run(argv, 20000, &output, &status, &e), e);
    assert_int_equal(status, 2);
    assert_non_null(strstr(output,
                           "'listen_tls' = 0.0.0.0:1 is open to other machines without a login; set a "
                           "'password', add a [user NAME], listen on 127.0.0.1, or set insecure = yes"));
    free(output);
    (void)daemon_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACCESS_TEST(test_slow_password__stalls_nobody_else),
        ACCESS_TEST(test_slow_password__its_client_may_go_away),
        ACCESS_TEST(test_slow_password__that_changes_meanwhile_is_refused),
        ACCESS_TEST(test_login__is_held_up_by_no_attacker_elsewhere),
        ACCESS_TEST(test_login__guesses_of_plain_text_wait),
        ACCESS_TEST(test_slow_password__does_not_hold_up_the_end),
        ACCESS_TEST(test_stranger__may_send_little),
        ACCESS_TEST(test_stranger__is_cut_after_a_while),
        ACCESS_TEST(test_http__a_slow_password_stalls_nobody),
        ACCESS_TEST(test_start__is_refused_where_strangers_could_come_in),
    };
    return cmocka_run_group_tests(tests, access_setup, access_teardown);
}
