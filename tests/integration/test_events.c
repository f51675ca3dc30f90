/* SPDX-License-Identifier: MIT */
/* A subscription to the events of all filters: its messages, and its end. */
#include "tests/integration/filters.h"

#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "shard/redis/events.h"

enum { SILENCE_MS = 5000 /* as in events.c */, SOON_MS = 2000 };

static struct servers servers;

static int start(void **state)
{
    (void)state;
    return servers_start(&servers, 1);
}

static int stop(void **state)
{
    (void)state;
    return servers_stop(&servers);
}

static struct events *subscribed(void)
{
    struct error e = {""};
    struct events *s = NULL;
    must(events_open(&s, &servers.nodes, PREFIX, SYNC_CLIENT_MS, &e), e);
    return s;
}

static uint64_t in_ms(unsigned ms)
{
    return clock_mono_us() + (uint64_t)ms * 1000;
}

static void publish(const char *payload)
{
    assert_int_equal(servers_integer(&servers, 0, "PUBLISH " PREFIX ":events %s", payload), 1);
}

static void expect(struct events *s, enum events_kind kind, const char *filter)
{
    struct error e = {""};
    struct events_message m;
    must(events_next(s, -1, in_ms(SOON_MS), &m, &e), e);
    assert_int_equal(m.kind, kind);
    assert_int_equal(m.filter_length, strlen(filter));
    assert_memory_equal(m.filter, filter, m.filter_length);
}

static void test_events__tell_of_views_and_releases_and_skip_what_they_do_not_know(void **state)
{
    (void)state;
    struct error e = {""};
    struct events_message m;
    struct events *s = subscribed();
    publish("view a%7bb");
    publish("later a");
    publish("view");
    publish("view ");
    publish("released with blank");
    expect(s, EVENTS_VIEW, "a%7bb");
    expect(s, EVENTS_RELEASED, "with blank");
    uint64_t began = clock_mono_us();
    gives(ERR_TIMEOUT, events_next(s, -1, in_ms(200), &m, &e), e);
    assert_in_range((clock_mono_us() - began) / 1000, 199, SOON_MS);
    events_close(s);
    events_close(NULL);
}

static void test_events__are_left_when_somebody_asks(void **state)
{
    (void)state;
    struct error e = {""};
    struct events_message m;
    struct events *s = subscribed();
    int fd = eventfd(1, EFD_CLOEXEC);
    uint64_t began = clock_mono_us();
    gives(ERR_CANCELLED, events_next(s, fd, in_ms(20000), &m, &e), e);
    assert_in_range((clock_mono_us() - began) / 1000, 0, SOON_MS);
    (void)close(fd);
    events_close(s);
}

static void test_events__say_that_their_connection_broke(void **state)
{
    (void)state;
    struct error e = {""};
    struct events_message m;
    struct events *s = subscribed();
    assert_int_equal(servers_integer(&servers, 0, "CLIENT KILL TYPE pubsub"), 1);
    gives(ERR_UNREACHABLE, events_next(s, -1, in_ms(20000), &m, &e), e);
    events_close(s);
}

/* A server that hangs does not close connections; only its silence shows it. */
static void test_events__outlive_a_silence_but_not_a_server_that_hangs(void **state)
{
    (void)state;
    struct error e = {""};
    struct events_message m;
    struct events *s = subscribed();
    gives(ERR_TIMEOUT, events_next(s, -1, in_ms(SILENCE_MS + 500), &m, &e), e);
    publish("view f");
    expect(s, EVENTS_VIEW, "f");
    process_signal(&servers.redis[0].process, SIGSTOP);
    uint64_t began = clock_mono_us();
    enum err code = events_next(s, -1, in_ms(60000), &m, &e);
    uint64_t took = clock_mono_us() - began;
    process_signal(&servers.redis[0].process, SIGCONT);
    gives(ERR_UNREACHABLE, code, e);
    assert_in_range(took / 1000, SILENCE_MS, SILENCE_MS + SYNC_CLIENT_MS + SOON_MS);
    events_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events__tell_of_views_and_releases_and_skip_what_they_do_not_know),
        cmocka_unit_test(test_events__are_left_when_somebody_asks),
        cmocka_unit_test(test_events__say_that_their_connection_broke),
        cmocka_unit_test(test_events__outlive_a_silence_but_not_a_server_that_hangs),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
