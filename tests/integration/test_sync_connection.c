/* SPDX-License-Identifier: MIT */
/* A blocking connection to a node over a port, a Unix socket and TLS, and its behaviour with faulty
 * servers. */
#include "tests/integration/wired.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "shard/redis/sync_connection.h"
#include "tests/lib/client.h"

enum { SHORT_MS = 300, SLACK_MS = 1500 };

static struct wired w;

static int start(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    wired_start(&w, "redis", "optional");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    wired_stop(&w);
    return 0;
}

static struct node_health_figures health(void)
{
    struct node_health_figures f;
    node_health_read(&w.nodes, 0, &f);
    return f;
}

/* --- ways to the server --- */

static void test_connection__speaks_by_every_way(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        wired_use_way(&w, way);
        struct sync_connection *c = wired_open(&w);
        assert_string_equal(WIRED_ASK(c, "CLIENT", "GETNAME"), "twinbloom-test");
        assert_string_equal(WIRED_ASK(c, "ECHO", "hello"), "hello");
        assert_int_equal(health().connections, 1);
        assert_false(sync_connection_is_stale(c));
        sync_connection_close(c);
        assert_int_equal(health().connections, 0);
        assert_int_equal(health().failures, 0);
    }
    sync_connection_close(NULL);
}

static void test_connection__logs_in_and_selects_its_database(void **state)
{
    (void)state;
    (void)wired_ask(&w, "ACL SETUSER some on >hunter2 +@all ~*");
    (void)wired_ask(&w, "SET where zero");
    wired_use(&w, NULL, "unix://some:hunter2@%s?db=3", w.socket);
    struct sync_connection *c = wired_open(&w);
    assert_string_equal(WIRED_ASK(c, "ACL", "WHOAMI"), "some");
    (void)WIRED_ASK(c, "SET", "where", "three");
    sync_connection_close(c);
    assert_string_equal(wired_ask(&w, "GET where"), "zero");

    wired_use(&w, NULL, "rediss://some:hunter2@localhost:%u/3", w.tls_port);
    c = wired_open(&w);
    assert_string_equal(WIRED_ASK(c, "GET", "where"), "three");
    sync_connection_close(c);

    wired_use(&w, NULL, "redis://some:hunter2x@127.0.0.1:%u", w.redis.port);
    wired_refused(&w, ERR_REFUSED, "WRONGPASS");
    wired_use(&w, NULL, "redis://some:hunter2@127.0.0.1:%u/77", w.redis.port);
    wired_refused(&w, ERR_REFUSED, "DB index is out of range");
    assert_int_equal(health().failures, 1);
    assert_non_null(strstr(health().error, "out of range"));
    (void)wired_ask(&w, "ACL DELUSER some");
}

static void test_connection__needs_no_right_to_its_name(void **state)
{
    (void)state;
    (void)wired_ask(&w, "ACL SETUSER quiet on >q +ping +info");
    wired_use(&w, NULL, "redis://quiet:q@127.0.0.1:%u", w.redis.port);
    struct sync_connection *c = wired_open(&w);
    assert_string_equal(WIRED_ASK(c, "PING"), "PONG");
    sync_connection_close(c);
    (void)wired_ask(&w, "CONFIG SET requirepass p");
    wired_use(&w, NULL, "unix://%s", w.socket);
    wired_refused(&w, ERR_REFUSED, "NOAUTH");
    wired_use(&w, NULL, "unix://:p@%s", w.socket);
    sync_connection_close(wired_open(&w));
    struct error e = {""};
    struct client login = {0};
    must(client_open(&login, w.redis.port, WIRED_MS, &e), e);
    must(client_ok(&login, &e, "AUTH p"), e);
    must(client_ok(&login, &e, "CONFIG SET requirepass %s", ""), e);
    client_close(&login);
    (void)wired_ask(&w, "ACL DELUSER quiet");
}

/* --- much, both ways --- */

/* The server stops reading while nobody reads its replies. All commands are sent before the first reply is
 * read, and are more than all buffers on the way can hold. */
static void test_connection__reads_while_it_writes(void **state)
{
    (void)state;
    enum { COUNT = 3000, BYTES = 20000 };
    static char text[BYTES + 1];
    memset(text, 'x', BYTES);
    for (enum way way = 0; way < WAYS; way++) {
        if (way == WAY_TLS)
            wired_echo_start(&w);
        else
            wired_use_way(&w, way);
        struct sync_connection *c = wired_open(&w);
        for (int i = 0; i < COUNT; i++) {
            text[0] = (char)('a' + i % 26);
            wired_append(c, 2, (const char *const[]){"ECHO", text});
        }
        for (int i = 0; i < COUNT; i++) {
            redisReply *r = wired_reply(c);
            const redisReply *said = r->type == REDIS_REPLY_ARRAY ? r->element[1] : r;
            assert_int_equal(said->len, BYTES);
            assert_int_equal(said->str[0], 'a' + i % 26);
            freeReplyObject(r);
        }
        sync_connection_close(c);
        if (way == WAY_TLS)
            wired_echo_end();
    }
}

static void test_connection__takes_large_and_small_replies_mixed(void **state)
{
    (void)state;
    enum { BYTES = 12 << 20 };
    char *large = malloc(BYTES + 1);
    assert_non_null(large);
    memset(large, 'x', BYTES);
    large[BYTES] = '\0';
    for (enum way way = 0; way < WAYS; way++) {
        if (way == WAY_TLS)
            wired_echo_start(&w);
        else
            wired_use_way(&w, way);
        struct sync_connection *c = wired_open(&w);
        for (int i = 0; i < 6; i++)
            wired_append(c, 2, (const char *const[]){"ECHO", i % 2 == 0 ? "small" : large});
        for (int i = 0; i < 6; i++) {
            redisReply *r = wired_reply(c);
            const redisReply *said = r->type == REDIS_REPLY_ARRAY ? r->element[1] : r;
            assert_int_equal(said->len, i % 2 == 0 ? 5 : BYTES);
            assert_int_equal(said->str[said->len - 1], i % 2 == 0 ? 'l' : 'x');
            freeReplyObject(r);
        }
        sync_connection_close(c);
        if (way == WAY_TLS)
            wired_echo_end();
    }
    free(large);
}

/* --- servers that do not behave --- */

static void within(uint64_t began, unsigned least_ms, unsigned most_ms)
{
    uint64_t took = (clock_mono_us() - began) / 1000;
    if (took + 20 < least_ms || took > most_ms)
        fail_msg("%llu ms, wanted %u to %u", (unsigned long long)took, least_ms, most_ms);
}

static void test_connection__does_not_wait_for_a_silent_server(void **state)
{
    (void)state;
    static const char *const schemes[] = {"redis", "rediss"};
    uint16_t port;
    int listener = wired_listen(&port); /* accepts connections, sends nothing */
    for (int i = 0; i < 2; i++) {
        struct error e = {""};
        struct sync_connection *c = NULL;
        wired_use(&w, NULL, "%s://127.0.0.1:%u", schemes[i], port);
        uint64_t began = clock_mono_us();
        gives(ERR_TIMEOUT, wired_try(&w, &c, SHORT_MS, &e), e);
        within(began, SHORT_MS, SHORT_MS + SLACK_MS);
        assert_int_equal(health().failures, 1);
    }
    (void)close(listener);
}

static void test_connection__does_not_wait_for_a_stopped_server(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        struct error e = {""};
        struct sync_connection *c = NULL, *none = NULL;
        redisReply *r = NULL;
        wired_use_way(&w, way);
        must(wired_try(&w, &c, SHORT_MS, &e), e);
        process_signal(&w.redis.process, SIGSTOP);
        wired_append(c, 1, (const char *const[]){"PING"});
        uint64_t began = clock_mono_us();
        enum err reply = sync_connection_reply(c, &r, &e);
        uint64_t replied_at = clock_mono_us();
        enum err again = wired_try(&w, &none, SHORT_MS, NULL);
        uint64_t ended = clock_mono_us();
        process_signal(&w.redis.process, SIGCONT);
        assert_int_equal(reply, ERR_TIMEOUT);
        assert_int_equal(again, ERR_TIMEOUT);
        assert_in_range((replied_at - began) / 1000, SHORT_MS - 20, SHORT_MS + SLACK_MS);
        assert_in_range((ended - replied_at) / 1000, SHORT_MS - 20, SHORT_MS + SLACK_MS);
        sync_connection_close(c);
        sync_connection_close(wired_open(&w));
    }
}

static void test_connection__sees_that_it_was_closed(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        struct error e = {""};
        redisReply *r = NULL;
        wired_use_way(&w, way);
        struct sync_connection *c = wired_open(&w), *asking = wired_open(&w);
        assert_false(sync_connection_is_stale(c));
        (void)wired_ask(&w, "CLIENT KILL TYPE normal SKIPME yes");
        uint64_t until = clock_mono_us() + 5000000;
        while (!sync_connection_is_stale(c) && clock_mono_us() < until)
            clock_sleep_us(1000);
        assert_true(clock_mono_us() < until);
        wired_append(asking, 1, (const char *const[]){"PING"});
        gives(ERR_UNREACHABLE, sync_connection_reply(asking, &r, &e), e);
        assert_null(r);
        sync_connection_close(c);
        sync_connection_close(asking);
    }
}

/* A server that reads once, sends @answer, and closes the connection. */
struct odd {
    int listener;
    const char *answer;
    bool half; /* closes its writing end only, and reads on */
    pthread_t thread;
};

static void *odd_run(void *arg)
{
    struct odd *o = arg;
    char text[4096];
    int fd = accept(o->listener, NULL, NULL);
    ssize_t n = recv(fd, text, sizeof(text), 0);
    if (n > 0)
        (void)send(fd, o->answer, strlen(o->answer), MSG_NOSIGNAL);
    if (o->half) {
        (void)shutdown(fd, SHUT_WR);
        while (recv(fd, text, sizeof(text), 0) > 0)
            ;
    }
    (void)close(fd);
    return NULL;
}

static void odd_server(const char *scheme, const char *answer, bool half, enum err wanted, const char *text)
{
    uint16_t port;
    struct error e = {""};
    struct sync_connection *c = NULL;
    struct odd o = {.answer = answer, .half = half};
    o.listener = wired_listen(&port);
    assert_int_equal(pthread_create(&o.thread, NULL, odd_run, &o), 0);
    wired_use(&w, NULL, "%s://127.0.0.1:%u", scheme, port);
    uint64_t began = clock_mono_us();
    gives(wanted, wired_try(&w, &c, WIRED_MS, &e), e);
    within(began, 0, WIRED_MS - 500);
    if (strstr(e.text, text) == NULL)
        fail_msg("%s (wanted: %s)", e.text, text);
    assert_int_equal(pthread_join(o.thread, NULL), 0);
    (void)close(o.listener);
}

static void test_connection__is_told_what_an_odd_server_does(void **state)
{
    (void)state;
    odd_server("redis", "", false, ERR_UNREACHABLE, "closed by the server");
    odd_server("redis", "", true, ERR_UNREACHABLE, "closed by the server");
    odd_server("redis", "+O", true, ERR_UNREACHABLE, "closed by the server");
    odd_server("redis", "HTTP/1.1 400 Bad Request\r\n\r\n", false, ERR_UNREACHABLE, "Protocol error");
    odd_server("rediss", "-ERR what is this?\r\n", false, ERR_UNREACHABLE, "TLS: ");
    odd_server("rediss", "", true, ERR_UNREACHABLE, "TLS: ");
    wired_use(&w, NULL, "rediss://127.0.0.1:%u", w.redis.port); /* the handshake is taken for a command */
    wired_refused(&w, ERR_TIMEOUT, "waiting for a TLS handshake");
    wired_use(&w, NULL, "redis://127.0.0.1:%u", w.tls_port);
    wired_refused(&w, ERR_UNREACHABLE, ""); /* closed or reset */
    wired_use(&w, NULL, "redis://127.0.0.1:%u", process_free_port());
    wired_refused(&w, ERR_UNREACHABLE, "Connection refused");
    wired_use(&w, NULL, "unix://%s/none.sock", w.directory);
    wired_refused(&w, ERR_UNREACHABLE, "No such file");
    wired_use(&w, NULL, "unix://%s/ours.crt", w.directory);
    wired_refused(&w, ERR_UNREACHABLE, "Connection refused");
}

/* --- names of hosts --- */

static void test_connection__looks_hosts_up_within_its_deadline(void **state)
{
    (void)state;
    struct error e = {""};
    struct sync_connection *c = NULL;
    wired_use(&w, NULL, "redis://here.test:%u", w.redis.port);
    sync_connection_close(wired_open(&w));
    wired_use(&w, NULL, "redis://none.test:%u", w.redis.port);
    wired_refused(&w, ERR_UNREACHABLE, "Name or service not known");
    wired_use(&w, NULL, "redis://slow.test:%u", w.redis.port);
    uint64_t began = clock_mono_us();
    gives(ERR_TIMEOUT, wired_try(&w, &c, SHORT_MS, &e), e);
    within(began, SHORT_MS, SHORT_MS + 700);
    assert_int_equal(atomic_load(&wired_slow_lookups), 1);
    clock_sleep_us(1800000); /* the lookup's thread ends by itself; ASan reports leaks */
}

/* A server that accepts nothing: its queue is full, so further connections get no answer at all. */
static void test_connection__comes_to_the_address_that_answers(void **state)
{
    (void)state;
    enum { QUEUED = 2 };
    struct error e = {""};
    struct sync_connection *c = NULL;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(w.redis.port)};
    assert_int_equal(inet_pton(AF_INET, WIRED_ELSEWHERE, &a.sin_addr), 1);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), queued[QUEUED];
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(listener, 0), 0);
    for (int i = 0; i < QUEUED; i++) {
        queued[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(queued[i], (struct sockaddr *)&a, sizeof(a));
    }
    wired_use(&w, NULL, "redis://two.test:%u", w.redis.port);
    gives(ERR_TIMEOUT, wired_try(&w, &c, SHORT_MS, &e), e);
    for (int i = 0; i < 2; i++) /* no attempt has to find it out again */
        sync_connection_close(wired_open(&w));
    for (int i = 0; i < QUEUED; i++)
        (void)close(queued[i]);
    (void)close(listener);
    sync_connection_close(wired_open(&w)); /* the one that refuses is passed over at once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connection__speaks_by_every_way),
        cmocka_unit_test(test_connection__logs_in_and_selects_its_database),
        cmocka_unit_test(test_connection__needs_no_right_to_its_name),
        cmocka_unit_test(test_connection__reads_while_it_writes),
        cmocka_unit_test(test_connection__takes_large_and_small_replies_mixed),
        cmocka_unit_test(test_connection__does_not_wait_for_a_silent_server),
        cmocka_unit_test(test_connection__does_not_wait_for_a_stopped_server),
        cmocka_unit_test(test_connection__sees_that_it_was_closed),
        cmocka_unit_test(test_connection__is_told_what_an_odd_server_does),
        cmocka_unit_test(test_connection__looks_hosts_up_within_its_deadline),
        cmocka_unit_test(test_connection__comes_to_the_address_that_answers),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
