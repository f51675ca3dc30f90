/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "service/login.h"

/* Of "hello". */
#define HASH "$y$j75$wxZuc9zvOwHhA1nQX8/PP0$d4Gp/uaOMD/tjgUyHthHB1RcgHeLw8WAR4BqJ.u7e57"
static const char text[] = "[service]\npassword = plain\n[user app]\npassword = " HASH "\n";

struct fixture {
    struct config *config;
    struct login *login;
    struct mailbox *mailbox;
    unsigned outcomes;
    enum login_outcome last;
};

static int setup(void **state)
{
    static struct fixture f;
    struct error e = {{0}};
    f = (struct fixture){.mailbox = mailbox_new()};
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(file);
    assert_int_equal(config_read_stream(&f.config, file, "t.ini", &e), ERR_OK);
    (void)fclose(file);
    assert_int_equal(login_start(&f.login, &e), ERR_OK);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    login_stop(f->login);
    mailbox_run(f->mailbox);
    mailbox_free(f->mailbox);
    config_free(f->config);
    return 0;
}

static void on_outcome(void *arg, enum login_outcome outcome)
{
    struct fixture *f = arg;
    f->outcomes++;
    f->last = outcome;
}

static enum login_outcome ask(struct fixture *f, const char *name, const char *password)
{
    return login_ask(f->login, f->config, name, strlen(name), password, strlen(password), f->mailbox,
                     on_outcome, f);
}

static enum login_outcome wait_for(struct fixture *f, unsigned outcomes)
{
    for (int i = 0; i < 2000 && f->outcomes < outcomes; i++)
        mailbox_wait(f->mailbox, 10);
    assert_int_equal(f->outcomes, outcomes);
    return f->last;
}

static void test_login_ask__remembers_what_was_right(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ask(f, "app", "hello"), LOGIN_PENDING);
    assert_int_equal(wait_for(f, 1), LOGIN_WELCOME);
    assert_int_equal(ask(f, "app", "hello"), LOGIN_WELCOME);
    assert_int_equal(ask(f, "app", "hellp"), LOGIN_PENDING);
    assert_int_equal(wait_for(f, 2), LOGIN_REFUSED);
    assert_int_equal(ask(f, "app", "hellp"), LOGIN_PENDING); /* what was wrong is not */
    assert_int_equal(wait_for(f, 3), LOGIN_REFUSED);
    login_forget(f->login);
    assert_int_equal(ask(f, "app", "hello"), LOGIN_PENDING);
    assert_int_equal(wait_for(f, 4), LOGIN_WELCOME);
}

static void test_login_ask__tells_strangers_as_slowly_as_wrong_passwords(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ask(f, "nobody", "hello"), LOGIN_PENDING);
    assert_int_equal(wait_for(f, 1), LOGIN_REFUSED);
    assert_int_equal(ask(f, "", ""), LOGIN_PENDING);
    assert_int_equal(wait_for(f, 2), LOGIN_REFUSED);
}

static void test_login_ask__knows_plain_text_at_once(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ask(f, "default", "plain"), LOGIN_WELCOME);
    assert_int_equal(ask(f, "default", "plaim"), LOGIN_REFUSED);
    assert_int_equal(ask(f, "default", ""), LOGIN_REFUSED);
    assert_int_equal(f->outcomes, 0);
}

static void test_login_ask__refuses_what_no_password_can_be(void **state)
{
    struct fixture *f = *state;
    char long_one[600];
    memset(long_one, 'x', sizeof(long_one));
    assert_int_equal(login_ask(f->login, f->config, "app", 3, long_one, 512, f->mailbox, on_outcome, f),
                     LOGIN_REFUSED);
    assert_int_equal(login_ask(f->login, f->config, "app", 3, "hello\0x", 7, f->mailbox, on_outcome, f),
                     LOGIN_REFUSED);
    assert_int_equal(f->outcomes, 0);
}

static void test_login_ask__bounds_those_who_wait(void **state)
{
    struct fixture *f = *state;
    unsigned pending = 0, busy = 0;
    char password[16];
    for (int i = 0; i < 6000; i++) {
        (void)snprintf(password, sizeof(password), "p%d", i);
        enum login_outcome outcome = ask(f, "app", password);
        pending += outcome == LOGIN_PENDING;
        busy += outcome == LOGIN_BUSY;
    }
    assert_int_equal(pending + busy, 6000);
    assert_true(busy > 0);
    assert_true(pending >= 4096);
    uint64_t began = clock_mono_us();
    login_stop(f->login); /* does not make the hashes of all who wait */
    f->login = NULL;
    assert_true(clock_mono_us() - began < 2000000);
    mailbox_run(f->mailbox);
    assert_int_equal(f->outcomes, pending);
    assert_int_equal(f->last, LOGIN_BUSY);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_login_ask__remembers_what_was_right),
        TEST(test_login_ask__tells_strangers_as_slowly_as_wrong_passwords),
        TEST(test_login_ask__knows_plain_text_at_once),
        TEST(test_login_ask__refuses_what_no_password_can_be),
        TEST(test_login_ask__bounds_those_who_wait),
    };
    return cmocka_run_group_tests_name("login", tests, NULL, NULL);
}
