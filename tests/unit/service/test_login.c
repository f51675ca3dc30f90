/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <crypt.h>

#include "base/clock.h"
#include "service/core/login.h"
#include "service/core/login_delay.h"

/* The hash of "hello". */
#define HASH "$y$j75$wxZuc9zvOwHhA1nQX8/PP0$d4Gp/uaOMD/tjgUyHthHB1RcgHeLw8WAR4BqJ.u7e57"
/* Number of hashes that were computed. The linker redirects calls of crypt_r() to the wrapper below. */
static atomic_uint hashes;
char *__real_crypt_r(const char *phrase, const char *setting, struct crypt_data *data);
char *__wrap_crypt_r(const char *phrase, const char *setting, struct crypt_data *data);

char *__wrap_crypt_r(const char *phrase, const char *setting, struct crypt_data *data)
{
    (void)atomic_fetch_add(&hashes, 1);
    return __real_crypt_r(phrase, setting, data);
}

/* The hash of "slow", which takes some 100 ms. */
#define SLOW "$y$jDT$yrwGt8EGp78HmJxUVRENw.$Ms2HyzPI6xHHhxZTr8oLuSibThdoTbaaR4deIbxNTo6"
static const char text[] =
    "[service]\npassword = plain\n[user app]\npassword = " HASH "\n[user slow]\npassword = " SLOW "\n";

struct fixture {
    struct config *config;
    struct login *login;
    struct mailbox *mailbox;
    atomic_bool gone; /* the client that asks has disconnected */
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

static const struct config *const *held(const struct fixture *f)
{
    return (const struct config *const *)&f->config;
}

static enum login_outcome ask_from(struct fixture *f, const char *address, const char *name,
                                   const char *password)
{
    const struct login_back back = {f->mailbox, on_outcome, f, &f->gone};
    return login_ask(f->login, held(f), address, name, strlen(name), password, strlen(password), &back);
}

static enum login_outcome ask(struct fixture *f, const char *name, const char *password)
{
    return ask_from(f, "10.0.0.1", name, password);
}

static enum login_outcome wait_for(struct fixture *f, unsigned outcomes)
{
    for (int i = 0; i < 2000 && f->outcomes < outcomes; i++)
        mailbox_wait(f->mailbox, 10);
    assert_true(f->outcomes >= outcomes);
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
    assert_int_equal(ask(f, "app", "hellp"), LOGIN_PENDING); /* a wrong password is not cached */
    assert_int_equal(wait_for(f, 3), LOGIN_REFUSED);
    login_forget(f->login);
    assert_int_equal(ask(f, "app", "hello"), LOGIN_PENDING);
    assert_int_equal(wait_for(f, 4), LOGIN_WELCOME);
}

/* Returns how many hashes are computed for a login that is refused. */
static unsigned cost(struct fixture *f, const char *name, const char *password)
{
    unsigned before = atomic_load(&hashes);
    assert_int_equal(ask(f, name, password), LOGIN_PENDING);
    assert_int_equal(wait_for(f, f->outcomes + 1), LOGIN_REFUSED);
    return atomic_load(&hashes) - before;
}

static void test_login_ask__tells_strangers_as_slowly_as_wrong_passwords(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(cost(f, "app", "wrong"), 1);
    assert_int_equal(cost(f, "nobody", "wrong"), 1);
    assert_int_equal(cost(f, "", ""), 1);
    assert_int_equal(ask(f, "app", "hello"), LOGIN_PENDING);
    assert_int_equal(wait_for(f, 4), LOGIN_WELCOME);
    /* The cached password of another user makes no difference. */
    assert_int_equal(cost(f, "nobody", "hello"), 1);
}

static void guess_often(struct fixture *f, const char *name, unsigned times)
{
    char password[16];
    for (unsigned i = 0; i < times; i++) {
        (void)snprintf(password, sizeof(password), "p%u", i);
        assert_int_equal(ask(f, name, password), LOGIN_PENDING);
    }
}

/* A login from another address waits only for the hash that is being computed. */
static void test_login_ask__holds_up_nobody_from_elsewhere(void **state)
{
    struct fixture *f = *state;
    guess_often(f, "slow", 1000);
    unsigned before = atomic_load(&hashes);
    struct fixture other = {.login = f->login, .config = f->config, .mailbox = f->mailbox};
    assert_int_equal(ask_from(&other, "10.0.0.2", "slow", "slow"), LOGIN_PENDING);
    assert_int_equal(wait_for(&other, 1), LOGIN_WELCOME);
    assert_in_range(atomic_load(&hashes) - before, 1, 3);
}

static void test_login_ask__delays_guesses_of_plain_text(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 6; i++)
        assert_int_equal(ask(f, "default", "plaim"), LOGIN_REFUSED);
    uint64_t began = clock_mono_us();
    assert_int_equal(ask(f, "default", "plain"), LOGIN_PENDING); /* the right password is delayed, too */
    assert_int_equal(ask_from(f, "10.0.0.2", "default", "plain"), LOGIN_WELCOME);
    assert_int_equal(wait_for(f, 1), LOGIN_WELCOME);
    assert_true(clock_mono_us() - began >= 90000);
    assert_int_equal(ask(f, "default", "plain"), LOGIN_WELCOME);
}

/* The right password is not answered sooner than a wrong one, although it is cached. */
static void test_login_ask__delays_guesses_of_what_is_remembered(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ask_from(f, "10.0.0.2", "app", "hello"), LOGIN_PENDING);
    assert_int_equal(wait_for(f, 1), LOGIN_WELCOME);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(ask(f, "app", "wrong"), LOGIN_PENDING);
        assert_int_equal(wait_for(f, 2 + i), LOGIN_REFUSED);
    }
    assert_int_equal(ask(f, "app", "hello"), LOGIN_PENDING);
    assert_int_equal(ask_from(f, "10.0.0.2", "app", "hello"), LOGIN_WELCOME);
    assert_int_equal(wait_for(f, 9), LOGIN_WELCOME);
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
    const struct login_back back = {f->mailbox, on_outcome, f, &f->gone};
    assert_int_equal(login_ask(f->login, held(f), "10.0.0.1", "app", 3, long_one, 512, &back), LOGIN_REFUSED);
    assert_int_equal(login_ask(f->login, held(f), "10.0.0.1", "app", 3, "hello\0x", 7, &back), LOGIN_REFUSED);
    assert_int_equal(f->outcomes, 0);
}

static void test_login_ask__bounds_those_who_wait(void **state)
{
    struct fixture *f = *state;
    unsigned before = atomic_load(&hashes);
    uint64_t began = clock_mono_us();
    guess_often(f, "app", 6000);
    /* Most guesses are answered as soon as there is a delay. */
    (void)wait_for(f, 6000 - 8 - LOGIN_FREE_FAILURES);
    assert_in_range(atomic_load(&hashes) - before, LOGIN_FREE_FAILURES + 1, LOGIN_FREE_FAILURES + 8);
    login_stop(f->login); /* computes no hashes for the logins that wait */
    f->login = NULL;
    assert_true(clock_mono_us() - began < 10000000);
    mailbox_run(f->mailbox);
    assert_int_equal(f->outcomes, 6000);
    assert_int_equal(f->last, LOGIN_BUSY);
}

/* Clients that connect, send a password and close cost at most the hash that is being computed. */
static void test_login_ask__computes_nothing_for_clients_that_have_gone(void **state)
{
    struct fixture *f = *state;
    enum { GONE = 100 };
    unsigned before = atomic_load(&hashes);
    struct fixture gone = {.login = f->login, .config = f->config, .mailbox = f->mailbox};
    for (int i = 0; i < GONE; i++) {
        char address[24]; /* none of them is delayed */
        (void)snprintf(address, sizeof(address), "10.0.1.%d", i);
        assert_int_equal(ask_from(&gone, address, "slow", "wrong"), LOGIN_PENDING);
    }
    atomic_store(&gone.gone, true);
    assert_int_equal(ask(f, "slow", "slow"), LOGIN_PENDING);
    assert_int_equal(wait_for(f, 1), LOGIN_WELCOME);
    assert_in_range(atomic_load(&hashes) - before, 1, 3);
    (void)wait_for(&gone, GONE); /* each has an outcome */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_login_ask__remembers_what_was_right),
        TEST(test_login_ask__tells_strangers_as_slowly_as_wrong_passwords),
        TEST(test_login_ask__holds_up_nobody_from_elsewhere),
        TEST(test_login_ask__delays_guesses_of_plain_text),
        TEST(test_login_ask__delays_guesses_of_what_is_remembered),
        TEST(test_login_ask__knows_plain_text_at_once),
        TEST(test_login_ask__refuses_what_no_password_can_be),
        TEST(test_login_ask__bounds_those_who_wait),
        TEST(test_login_ask__computes_nothing_for_clients_that_have_gone),
    };
    return cmocka_run_group_tests_name("login", tests, NULL, NULL);
}
