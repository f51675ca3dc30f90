/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mailbox.h"

enum { THREADS = 4, LETTERS = 5000 };

struct sender {
    struct mailbox *to;
    unsigned sent;
    unsigned received; /* written by the owner's thread only */
    unsigned out_of_order;
    bool failed;
    pthread_t owner;
    unsigned on_a_foreign_thread;
};

struct numbered {
    struct sender *from;
    unsigned number;
};

static void receive(void *arg)
{
    struct numbered *l = arg;
    l->from->out_of_order += l->number != l->from->received;
    l->from->received++;
    l->from->on_a_foreign_thread += !pthread_equal(pthread_self(), l->from->owner);
    free(l);
}

static void *send_all(void *arg)
{
    struct sender *s = arg;
    for (unsigned i = 0; i < LETTERS; i++) {
        struct numbered *l = malloc(sizeof(*l));
        if (l == NULL)
            abort();
        *l = (struct numbered){s, i};
        s->failed |= mailbox_post(s->to, receive, l) != ERR_OK;
    }
    return NULL;
}

static void test_mailbox__delivers_every_letter_once_and_in_each_senders_order(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new();
    assert_non_null(m);
    struct sender senders[THREADS] = {0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){.to = m, .owner = pthread_self()};
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    uint64_t until = clock_mono_us() + 20u * 1000000u;
    unsigned received = 0;
    while (received < THREADS * LETTERS && clock_mono_us() < until) {
        mailbox_wait(m, 1000);
        received = 0;
        for (int i = 0; i < THREADS; i++)
            received += senders[i].received;
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(senders[i].failed);
        assert_int_equal(senders[i].received, LETTERS);
        assert_int_equal(senders[i].out_of_order, 0);
        assert_int_equal(senders[i].on_a_foreign_thread, 0);
    }
    mailbox_free(m);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

static bool readable(const struct mailbox *m)
{
    struct pollfd p = {.fd = mailbox_fd(m), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_mailbox_fd__is_readable_while_letters_wait(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new();
    int n = 0;
    assert_non_null(m);
    assert_false(readable(m));
    assert_int_equal(mailbox_post(m, count, &n), ERR_OK);
    assert_int_equal(mailbox_post(m, count, &n), ERR_OK);
    assert_true(readable(m));
    assert_int_equal(n, 0);
    mailbox_run(m);
    assert_int_equal(n, 2);
    assert_false(readable(m));
    mailbox_run(m);
    assert_int_equal(n, 2);
    mailbox_free(m);
}

struct reposter {
    struct mailbox *m;
    int runs;
};

static void post_again(void *arg)
{
    struct reposter *r = arg;
    if (++r->runs == 1 && mailbox_post(r->m, post_again, r) != ERR_OK)
        abort();
}

static void test_mailbox_run__leaves_a_letter_that_a_letter_posted_for_the_next_run(void **state)
{
    (void)state;
    struct reposter r = {.m = mailbox_new()};
    assert_non_null(r.m);
    assert_int_equal(mailbox_post(r.m, post_again, &r), ERR_OK);
    mailbox_run(r.m);
    assert_int_equal(r.runs, 1);
    assert_true(readable(r.m));
    mailbox_run(r.m);
    assert_int_equal(r.runs, 2);
    mailbox_free(r.m);
}

static void test_mailbox_free__drops_letters_without_running_them(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new();
    int n = 0;
    assert_non_null(m);
    assert_int_equal(mailbox_post(m, count, &n), ERR_OK);
    mailbox_free(m);
    mailbox_free(NULL);
    assert_int_equal(n, 0);
}

static void test_mailbox_wait__returns_after_its_time_without_a_letter(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new();
    assert_non_null(m);
    uint64_t from = clock_mono_us();
    mailbox_wait(m, 50);
    uint64_t took = clock_mono_us() - from;
    assert_in_range(took, 45000, 5000000);
    mailbox_free(m);
}

static void test_mailbox_wake__ends_a_wait_and_runs_nothing(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new();
    assert_non_null(m);
    struct pollfd p = {.fd = mailbox_fd(m), .events = POLLIN};
    mailbox_wake(m);
    mailbox_wake(m);
    assert_int_equal(poll(&p, 1, 0), 1);
    mailbox_wait(m, 60000);
    assert_int_equal(poll(&p, 1, 0), 0); /* the next wait blocks again */
    mailbox_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mailbox__delivers_every_letter_once_and_in_each_senders_order),
        cmocka_unit_test(test_mailbox_fd__is_readable_while_letters_wait),
        cmocka_unit_test(test_mailbox_run__leaves_a_letter_that_a_letter_posted_for_the_next_run),
        cmocka_unit_test(test_mailbox_free__drops_letters_without_running_them),
        cmocka_unit_test(test_mailbox_wait__returns_after_its_time_without_a_letter),
        cmocka_unit_test(test_mailbox_wake__ends_a_wait_and_runs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
