/* SPDX-License-Identifier: MIT */
#include "tests/integration/solo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/redis/ahead.h"
#include "shard/request/log_filter_state.h"

enum { TIMEOUT_MS = 2000, RUN_MS = 10000, STEP_MS = 2, LEAVE_MS = 1000 };

static void on_wake(void *arg)
{
    struct solo *s = arg;
    atomic_store(&s->woken, true);
}

void solo_open(struct solo *s, const struct nodes *nodes, const struct names *names, uint64_t memory,
               const struct control_options *o)
{
    struct error e = {""};
    struct names unknown = *names;
    struct control_options options = *o;
    *s = (struct solo){.next = 0};
    unknown.incarnation = 0;
    budget_init(&s->budget, memory);
    s->link = sync_client_new(nodes, TIMEOUT_MS, NULL);
    s->base = event_base_new();
    s->store = async_client_new(s->base, nodes, TIMEOUT_MS, NULL);
    s->port = request_port_new(s->base, s->store, TIMEOUT_MS);
    s->filter = log_filter_new(&unknown, nodes, &s->budget, on_wake, s);
    if (options.thread == NULL)
        options.thread = s->thread = control_thread_new(nodes, TIMEOUT_MS);
    assert_true(s->link != NULL && options.thread != NULL && s->port != NULL && s->filter != NULL);
    options.filter = s->filter;
    options.redis = s->link;
    options.timeout_ms = TIMEOUT_MS;
    must(control_new(&s->control, &options, &e), e);
}

/* Run the loop once. */
static void step(struct solo *s)
{
    const struct timeval most = {.tv_usec = STEP_MS * 1000};
    (void)event_base_loopexit(s->base, &most);
    (void)event_base_loop(s->base, EVLOOP_ONCE);
}

/* Run @fn in a thread of its own, because the control may wait for a tail read that this thread's loop
 * makes. */
static void in_thread(struct solo *s, void *(*fn)(void *))
{
    pthread_t thread;
    atomic_store(&s->is_over, false);
    assert_int_equal(pthread_create(&thread, NULL, fn, s), 0);
    while (!atomic_load(&s->is_over))
        step(s);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *tend(void *arg)
{
    struct solo *s = arg;
    s->code = control_tend(s->control, &s->next, &s->last);
    atomic_store(&s->is_over, true);
    return NULL;
}

static void *leave(void *arg)
{
    struct solo *s = arg;
    s->code = control_leave(s->control, &s->last);
    atomic_store(&s->is_over, true);
    return NULL;
}

void solo_close(struct solo *s)
{
    uint64_t until = clock_mono_us() + LEAVE_MS * 1000ull;
    do
        in_thread(s, leave);
    while (s->code == ERR_BUSY && clock_mono_us() < until);
    control_free(s->control);
    control_thread_free(s->thread);
    request_port_free(s->port);
    async_client_free(s->store);
    event_base_free(s->base);
    while (!log_filter_free(s->filter))
        clock_sleep_us(1000);
    sync_client_free(s->link);
}

void solo_tend_once(struct solo *s)
{
    s->last = (struct error){""};
    atomic_store(&s->woken, false);
    s->tends++;
    in_thread(s, tend);
}

void solo_tend(struct solo *s)
{
    do
        solo_tend_once(s);
    while (s->code == ERR_OK && (s->next == 0 || atomic_load(&s->woken)));
}

static void run(struct solo *s, const bool *done, unsigned ms, bool tends)
{
    uint64_t until = clock_mono_us() + (ms != 0 ? ms : RUN_MS) * 1000ull;
    while (!*done) {
        uint64_t now = clock_mono_us();
        if (now >= until) {
            if (ms == 0)
                fail_msg("not done; the control says: %s", s->last.text);
            return;
        }
        if (tends && (atomic_load(&s->woken) || now >= s->next))
            solo_tend_once(s);
        step(s);
    }
}

void solo_ask_ahead(struct solo *s, uint64_t within, void (*between)(void))
{
    assert_true(control_only_looks(s->control, clock_mono_us() + within));
    assert_true(ahead_begin(s->link));
    control_ask_ahead(s->control, 1);
    ahead_read(s->link);
    if (between != NULL)
        between();
    control_ask_masters_ahead(s->control);
    ahead_close(s->link);
}

void solo_tend_ahead(struct solo *s)
{
    solo_tend_once(s);
    ahead_end(s->link);
}

void solo_run(struct solo *s, const bool *done, unsigned ms)
{
    run(s, done, ms, true);
}

void solo_loop(struct solo *s, const bool *done, unsigned ms)
{
    run(s, done, ms, false);
}

static void on_done(void *arg, enum err code, const char *text)
{
    struct solo_request *r = arg;
    assert_false(r->told);
    r->told = true;
    r->code = code;
    (void)snprintf(r->why, sizeof(r->why), "%s", text);
    free(r->q);
    r->q = NULL;
}

void solo_begin(struct solo *s, struct solo_request *r, bool adds, uint64_t number)
{
    *r = (struct solo_request){.answer = UINT8_MAX};
    r->q = malloc(sizeof(*r->q));
    r->key.bytes = r->text;
    r->key.length = (size_t)snprintf(r->text, sizeof(r->text), "%" PRIu64, number);
    if (adds)
        key_add(s->port, s->filter, r->q, &r->key, 1, &r->answer, NULL, on_done, r);
    else if (key_check(s->port, s->filter, r->q, &r->key, 1, &r->answer, on_done, r))
        on_done(r, ERR_OK, "");
}

void solo_fail(struct solo_request *r)
{
    key_request_fail(r->q, ERR_CANCELLED, "the test ends it");
    assert_true(r->told);
}

enum key_answer solo_ask(struct solo *s, bool adds, uint64_t number)
{
    struct solo_request r;
    solo_begin(s, &r, adds, number);
    solo_run(s, &r.told, 0);
    if (r.code != ERR_OK)
        fail_msg("%s; the control says: %s", r.why, s->last.text);
    return (enum key_answer)r.answer;
}

enum err solo_error(struct solo *s, bool adds, uint64_t number, char *why)
{
    struct solo_request r;
    solo_begin(s, &r, adds, number);
    solo_run(s, &r.told, 0);
    (void)snprintf(why, sizeof(r.why), "%s", r.why);
    return r.code;
}
