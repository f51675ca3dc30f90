/* SPDX-License-Identifier: MIT */
/* A connection of an event loop: order and contents of replies over each transport, logins, and its end. */
#include "tests/integration/wired.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "shard/redis/async_connection.h"
#include "tests/lib/client.h"

enum { GUARD_MS = 20000 };

static struct wired w;
static struct event_base *base;

/* What a connection reported. */
struct told {
    struct async_connection *channel; /* NULL: the connection is over */
    unsigned ready, closed, replies, nulls, wrong;
    enum err code;
    char why[200];
    unsigned close_at; /* the number of the reply whose callback closes the connection, from 1; 0: none */
    unsigned next;     /* the next expected number */
};

static struct told t;

static int start(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    wired_start(&w, "redis", "no");
    base = event_base_new();
    return base != NULL ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    event_base_free(base);
    wired_stop(&w);
    return 0;
}

/* --- helpers --- */

static void on_ready(void *arg)
{
    ((struct told *)arg)->ready++;
}

static void on_closed(void *arg, enum err code, const char *why)
{
    struct told *to = arg;
    assert_int_equal(to->nulls, 0); /* on_closed comes before the callbacks of pending requests */
    to->closed++;
    to->channel = NULL;
    to->code = code;
    (void)snprintf(to->why, sizeof(to->why), "%s", why);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct told *to = arg;
    char wanted[32];
    if (reply == NULL) {
        to->nulls++;
        return;
    }
    if (reply->type == REDIS_REPLY_ARRAY) /* the echoing server replies with an array */
        reply = reply->element[1];
    (void)snprintf(wanted, sizeof(wanted), "%u", to->next++);
    to->wrong += reply->type != REDIS_REPLY_STRING || strncmp(reply->str, wanted, strlen(wanted)) != 0;
    to->replies++;
    if (to->replies == to->close_at) {
        struct async_connection *c = to->channel;
        to->channel = NULL;
        async_connection_close(c);
        assert_false(async_connection_send(c, "*1\r\n$4\r\nPING\r\n", 14, on_reply,
                                           to)); /* @to is valid until this function returns */
    }
}

static uint64_t since; /* when the connection of the last reply became ready */

static void open_connection(void)
{
    const struct async_connection_events events = {
        .ready = on_ready, .closed = on_closed, .arg = &t, .replying_since = &since};
    t = (struct told){0};
    t.channel = async_connection_open(base, &w.nodes, &w.nodes.node[0], "twinbloom-test", &events);
    assert_non_null(t.channel);
}

static bool send_words(size_t argc, const char *const *argv, const size_t *lengths,
                       async_connection_reply_fn *fn, void *arg)
{
    struct buffer b = {0};
    buffer_command(&b, argc, argv, lengths);
    bool sent = async_connection_send(t.channel, b.data, b.length, fn, arg);
    buffer_fini(&b);
    return sent;
}

/* Send ECHO of @number, padded to @bytes. */
static void send_echo(unsigned number, size_t bytes)
{
    char *text = malloc(bytes + 32);
    assert_non_null(text);
    int n = snprintf(text, 32, "%u", number);
    if ((size_t)n < bytes)
        memset(text + n, 'x', bytes - (size_t)n);
    size_t length = (size_t)n < bytes ? bytes : (size_t)n;
    assert_true(
        send_words(2, (const char *const[]){"ECHO", text}, (const size_t[]){4, length}, on_reply, &t));
    free(text);
}

/* Run the loop until @what returns true. */
static void run_until(bool (*what)(void))
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    const struct timeval heartbeat = {0, 10000};
    while (!what()) {
        if (clock_mono_us() > until)
            fail_msg("ready %u closed %u replies %u nulls %u: %s", t.ready, t.closed, t.replies, t.nulls,
                     t.why);
        (void)event_base_loopexit(base, &heartbeat);
        (void)event_base_loop(base, EVLOOP_ONCE);
    }
}

static unsigned wanted_replies;

static bool has_replies(void)
{
    return t.replies >= wanted_replies || t.closed > 0;
}

static bool is_closed(void)
{
    return t.closed > 0;
}

static bool is_ready(void)
{
    return t.ready > 0 || t.closed > 0;
}

static void wait_replies(unsigned count)
{
    wanted_replies = count;
    run_until(has_replies);
    if (t.closed > 0)
        fail_msg("closed: %s", t.why);
    assert_int_equal(t.replies, count);
    assert_int_equal(t.wrong, 0);
}

static void close_connection(void)
{
    async_connection_close(t.channel);
    t.channel = NULL;
}

/* --- what is asked is answered --- */

static void test_channel__answers_in_order_by_every_way(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        wired_use_way(&w, way);
        open_connection();
        assert_false(async_connection_is_ready(t.channel));
        unsigned number = 0;
        for (; number < 100; number++) /* requests before the connection is ready */
            send_echo(number, 1);
        assert_int_equal(async_connection_pending(t.channel), 100);
        wait_replies(100);
        assert_int_equal(t.ready, 1);
        for (unsigned size = 1; size < (way == WAY_TLS ? 300 : 3000);
             size += 97) /* the ring buffer wraps around, and grows while it is wrapped */
            for (unsigned end = number + size / 7 + 3; number < end; number++)
                send_echo(number, size);
        wait_replies(number);
        for (; number < 12000; number++)
            send_echo(number, 9);
        wait_replies(12000);
        assert_int_equal(async_connection_pending(t.channel), 0);
        assert_non_null(strstr(wired_ask(&w, "CLIENT LIST"), " name=twinbloom-test "));
        close_connection();
        assert_int_equal(t.closed, 0);
    }
}

/* More data than all buffers hold: the server stops reading until its replies are read. */
static void test_channel__sends_more_than_fits(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        if (way == WAY_TLS)
            wired_echo_start(&w);
        else
            wired_use_way(&w, way);
        open_connection();
        for (unsigned i = 0; i < 2000; i++)
            send_echo(i, 20000);
        wait_replies(2000);
        for (unsigned i = 2000; i < 2010; i++)
            send_echo(i, 1000000);
        wait_replies(2010);
        close_connection();
        if (way == WAY_TLS)
            wired_echo_end();
    }
}

static redisReply *deep_copy(const redisReply *from)
{
    redisReply *to = calloc(1, sizeof(*to));
    assert_non_null(to);
    *to = *from;
    if (from->str != NULL)
        to->str = strndup(from->str, from->len);
    if (from->elements > 0)
        to->element = calloc(from->elements, sizeof(redisReply *));
    for (size_t i = 0; i < from->elements; i++)
        to->element[i] = deep_copy(from->element[i]);
    return to;
}

static void keep_reply(void *arg, const redisReply *reply)
{
    redisReply **to = arg;
    assert_non_null(reply);
    *to = deep_copy(reply);
}

static redisReply *kept;

static bool is_kept(void)
{
    return kept != NULL || t.closed > 0;
}

static const redisReply *evaluated(const char *script)
{
    freeReplyObject(kept);
    kept = NULL;
    assert_true(send_words(3, (const char *const[]){"EVAL", script, "0"},
                           (const size_t[]){4, strlen(script), 1}, keep_reply, &kept));
    run_until(is_kept);
    assert_non_null(kept);
    return kept;
}

static void test_channel__gives_replies_of_every_kind(void **state)
{
    (void)state;
    wired_use_way(&w, WAY_TCP);
    open_connection();
    const redisReply *r =
        evaluated("return {1, 'two', {3, {}, false}, {ok = 'FINE'}, {err = 'ERR bad'}, '', -5}");
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->elements, 7);
    assert_int_equal(r->element[0]->integer, 1);
    assert_string_equal(r->element[1]->str, "two");
    assert_int_equal(r->element[2]->elements, 3);
    assert_int_equal(r->element[2]->element[1]->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->element[2]->element[1]->elements, 0);
    assert_int_equal(r->element[2]->element[2]->type, REDIS_REPLY_NIL);
    assert_int_equal(r->element[3]->type, REDIS_REPLY_STATUS);
    assert_string_equal(r->element[3]->str, "FINE");
    assert_int_equal(r->element[4]->type, REDIS_REPLY_ERROR);
    assert_int_equal(r->element[5]->len, 0);
    assert_int_equal(r->element[6]->integer, -5);
    r = evaluated("return redis.error_reply('ERR whole')");
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    r = evaluated("local t = {} for i = 1, 50000 do t[i] = string.rep('y', i % 50) end return t");
    assert_int_equal(r->elements, 50000);
    for (size_t i = 0; i < r->elements; i++)
        assert_int_equal(r->element[i]->len, (i + 1) % 50);
    r = evaluated("return string.rep('z', 5000000)");
    assert_int_equal(r->len, 5000000);
    r = evaluated("return {}");
    assert_int_equal(r->elements, 0);
    freeReplyObject(kept);
    kept = NULL;
    close_connection();
}

/* --- logins --- */

static void test_channel__sends_nothing_before_the_login_is_taken(void **state)
{
    (void)state;
    (void)wired_ask(&w, "ACL SETUSER some on >hunter2 +@all ~*");
    const char *const whys[] = {"WRONGPASS", "out of range"};
    for (int i = 0; i < 2; i++) {
        wired_use(&w, NULL, "redis://some:%s@127.0.0.1:%u/%d", i == 0 ? "wrong" : "hunter2", w.redis.port,
                  99 * i);
        open_connection();
        assert_true(send_words(3, (const char *const[]){"SET", "written", "yes"}, (const size_t[]){3, 7, 3},
                               on_reply, &t));
        run_until(is_closed);
        assert_int_equal(t.code, ERR_REFUSED);
        assert_non_null(strstr(t.why, whys[i]));
        assert_int_equal(t.nulls, 1);
        assert_int_equal(t.ready, 0);
        assert_string_equal(wired_ask(&w, "EXISTS written"), "0"); /* the default user could have written */
    }
    (void)wired_ask(&w, "ACL DELUSER some");
}

/* --- its end --- */

static void test_channel__tells_whoever_waits_that_it_broke(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        wired_use_way(&w, way);
        open_connection();
        run_until(is_ready);
        process_signal(&w.redis.process, SIGSTOP);
        for (unsigned i = 0; i < 1000; i++)
            send_echo(i, 100);
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        temp_redis_kill(&w.redis);
        run_until(is_closed);
        assert_int_equal(t.code, ERR_UNREACHABLE);
        assert_int_equal(t.replies, 0);
        assert_int_equal(t.nulls, 1000);
        struct error e = {""};
        must(temp_redis_restart(&w.redis, true, &e), e);
    }
}

static void test_channel__may_be_closed_at_any_time(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        wired_use_way(&w, way);
        open_connection();
        close_connection(); /* closed before the loop has run */
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        assert_int_equal(t.ready + t.closed, 0);
        for (unsigned turns = 0; turns < 8;
             turns++) { /* closed while it connects, shakes hands, sends its greeting */
            open_connection();
            send_echo(0, 1);
            for (unsigned i = 0; i < turns; i++)
                (void)event_base_loop(base, EVLOOP_NONBLOCK);
            close_connection();
            assert_int_equal(t.nulls + t.replies, 1);
            assert_int_equal(t.closed, 0);
        }
        for (unsigned at = 1; at < 40; at += 7) { /* closed in a callback, with requests pending */
            open_connection();
            t.close_at = at;
            for (unsigned i = 0; i < 50; i++)
                send_echo(i, 300);
            wanted_replies = at;
            run_until(has_replies);
            assert_int_equal(t.replies, at);
            assert_int_equal(t.nulls, 50 - at);
            assert_int_equal(t.closed, 0);
        }
    }
    async_connection_close(NULL);
}

/* A server that sends @text, @piece bytes at a time, whatever it receives. */
struct parrot {
    int listener;
    const char *text;
    size_t piece;
    bool stays; /* keeps the connection open until the client closes */
    pthread_t thread;
};

static void *parrot_run(void *arg)
{
    struct parrot *p = arg;
    char got[4096];
    int fd = accept(p->listener, NULL, NULL);
    bool there = recv(fd, got, sizeof(got), 0) > 0;
    size_t length = strlen(p->text);
    for (size_t i = 0; there && i < length; i += p->piece) {
        size_t n = length - i < p->piece ? length - i : p->piece;
        there = send(fd, p->text + i, n, MSG_NOSIGNAL) == (ssize_t)n;
        clock_sleep_us(200);
    }
    while (p->stays && recv(fd, got, sizeof(got), 0) > 0)
        ;
    (void)close(fd);
    return NULL;
}

static struct parrot parrot;

static void parrot_start(const char *text, size_t piece, bool stays)
{
    uint16_t port;
    parrot = (struct parrot){.text = text, .piece = piece, .stays = stays};
    parrot.listener = wired_listen(&port);
    wired_use(&w, NULL, "redis://127.0.0.1:%u", port);
    assert_int_equal(pthread_create(&parrot.thread, NULL, parrot_run, &parrot), 0);
}

static void parrot_end(void)
{
    close_connection();
    assert_int_equal(pthread_join(parrot.thread, NULL), 0);
    (void)close(parrot.listener);
}

static void test_channel__puts_pieces_together(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 20; piece += 3) {
        parrot_start("+OK\r\n" WIRED_REPLICATION "$1\r\n0\r\n$3\r\n1\r\n\r\n$10\r\n2xxxxxxxxx\r\n$1\r\n3\r\n",
                     piece, true);
        open_connection();
        for (unsigned i = 0; i < 4; i++)
            send_echo(i, 1);
        wait_replies(4);
        assert_true(since > 0);
        parrot_end();
    }
}

static void odd(const char *text, bool stays, const char *why, unsigned replies)
{
    parrot_start(text, 1000, stays);
    open_connection();
    send_echo(0, 1);
    send_echo(1, 1);
    run_until(is_closed);
    if (strstr(t.why, why) == NULL)
        fail_msg("%s (wanted: %s)", t.why, why);
    assert_int_equal(t.code, ERR_UNREACHABLE);
    assert_int_equal(t.replies, replies);
    assert_int_equal(t.nulls, 2 - replies);
    parrot_end();
}

static void test_channel__ends_where_the_server_is_none(void **state)
{
    (void)state;
    odd("HTTP/1.1 200 OK\r\n\r\n", true, "Protocol error", 0);
    odd("+OK\r\n" WIRED_REPLICATION "$1\r\n0\r\n?\r\n", true, "Protocol error", 1);
    odd("+OK\r\n" WIRED_REPLICATION "$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n", true, "nobody has asked", 2);
    odd("", false, "", 0); /* the server closes, or resets the connection */
    odd("+OK\r\n" WIRED_REPLICATION "$1\r\n0\r\n$1000\r\n1", false, "", 1);
    odd("+OK\r\n" WIRED_REPLICATION "*99999999999\r\n", true, "out of range", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel__answers_in_order_by_every_way),
        cmocka_unit_test(test_channel__sends_more_than_fits),
        cmocka_unit_test(test_channel__gives_replies_of_every_kind),
        cmocka_unit_test(test_channel__sends_nothing_before_the_login_is_taken),
        cmocka_unit_test(test_channel__tells_whoever_waits_that_it_broke),
        cmocka_unit_test(test_channel__may_be_closed_at_any_time),
        cmocka_unit_test(test_channel__puts_pieces_together),
        cmocka_unit_test(test_channel__ends_where_the_server_is_none),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
