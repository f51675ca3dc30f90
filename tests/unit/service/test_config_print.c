/* SPDX-License-Identifier: MIT */
/* Printing of configurations, masking of passwords, and addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "service/config/config_keys.h"
#include "tests/unit/service/ini.h"

static void check_round_trip(const char *text)
{
    struct config *c = ini_accept(text);
    char *first = ini_print(c);
    struct config *again = ini_accept(first);
    char *second = ini_print(again);
    assert_string_equal(first, second);
    for (size_t i = 0; i < c->filter_count; i++)
        assert_string_equal(c->filter[i].where, again->filter[i].where);
    config_free(c);
    config_free(again);
    free(first);
    free(second);
}

static void test_config_print__can_be_read_again(void **state)
{
    (void)state;
    check_round_trip("");
    check_round_trip(ini_full);
    check_round_trip("[postgres]\ndsn=x\n[filter a]\ncapacity=1\ntable=t\nkey=k\nwhere=;#b\n");
    char text[1000]; /* a long value, of several lines */
    (void)snprintf(
        text, sizeof(text),
        "[postgres]\ndsn=x\n[filter a]\ncapacity=1\nerror_rate=0.30000000000000004\ntable=t\nkey=k\n"
        "where=#%0*d key = 3\n %0*d\n %0*d#  b table : [x y\n",
        180, 0, 197, 0, 170, 0);
    check_round_trip(text);
}

/* Join comments of several lines. */
static void unwrap(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        bool goes_on = strncmp(from, "\n# ", 3) == 0;
        *to++ = goes_on ? ' ' : *from;
        from += goes_on ? 2 : 0;
    }
    *to = '\0';
}

static void test_config_print__names_every_key(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "[filter a]\ncapacity = 1\n[user a]\ntoken = sha256:" HEX HEX "\n"};
    for (size_t t = 0; t < 2; t++) {
        struct config *c = ini_accept(texts[t]);
        char *text = ini_print(c);
        for (size_t i = 0; i < config_key_count; i++) {
            char line[64];
            bool commented = t == 0 && config_keys[i].section >= CONFIG_FILTER;
            (void)snprintf(line, sizeof(line), "\n%s%s =", commented ? "# " : "", config_keys[i].name);
            assert_non_null(strstr(text, line));
        }
        unwrap(text);
        for (size_t i = 0; i < config_key_count; i++) {
            const char *help = strstr(text, config_keys[i].help);
            assert_non_null(help);
            const char *end = strstr(help + strlen(config_keys[i].help), " ="); /* after the key's name */
            assert_non_null(end);
            const char *restart = strstr(help, "A change needs a restart.");
            bool needed = restart != NULL && restart < end;
            assert_int_equal(needed, (config_keys[i].flags & CONFIG_RELOADABLE) == 0);
            const char *alone = strstr(help, "Not by CONFIG SET.");
            bool file_only = alone != NULL && alone < end;
            assert_int_equal(file_only, (config_keys[i].flags & CONFIG_FILE_ONLY) != 0);
        }
        free(text);
        config_free(c);
    }
}

static void test_config_print__masks_secrets(void **state)
{
    (void)state;
    struct config *c =
        ini_accept("[service]\npassword = hush1\n"
                   "[redis]\nnodes = redis://u:hush2@127.0.0.1:1, redis://u:hush3@127.0.0.1:2\n"
                   "[postgres]\ndsn = postgresql://app:hush4@h:5432/db?password=hush5&x=y\n");
    char *text = ini_print(c);
    assert_null(strstr(text, "hush"));
    assert_int_equal(strncmp(text, "# A secret is printed as ***. ", 30), 0);
    assert_non_null(strstr(text, "\npassword = ***\n"));
    assert_non_null(strstr(text, "\nnodes = redis://u:***@127.0.0.1:1, redis://u:***@127.0.0.1:2\n"));
    assert_non_null(strstr(text, "\ndsn = postgresql://app:***@h:5432/db?password=***&x=y\n"));
    free(text);
    config_free(c);
    ini_refuse("[service]\npassword = ***\n",
               "2: 'password' holds ***, the mask of a printed configuration; put the secret "
               "in its place");
}

static void check_mask(const char *text, const char *expected)
{
    struct buffer b = {0};
    config_mask(&b, text);
    assert_string_equal(buffer_text(&b), expected);
    buffer_fini(&b);
}

static void test_config_mask__finds_passwords_in_every_form(void **state)
{
    (void)state;
    check_mask("", "");
    check_mask("host=h user=u", "host=h user=u");
    check_mask("password=hush host=h", "password=*** host=h");
    check_mask("host=h password = 'hu\\'s h' user=u", "host=h password = *** user=u");
    check_mask("password=hu\\ sh&x sslpassword=hush", "password=*** sslpassword=***");
    check_mask("password=", "password=");
    check_mask("rediss://u:hush@h:1/2, unix://u:hu%2fsh@/run/a.sock?db=3",
               "rediss://u:***@h:1/2, unix://u:***@/run/a.sock?db=3");
    check_mask("unix:///run/a.sock?password=hush&db=3", "unix:///run/a.sock?password=***&db=3");
    check_mask("password='hush", "password=***");
    check_mask("postgresql://app@h:5432/db", "postgresql://app@h:5432/db");
    check_mask("postgresql://app:hu@sh@h:5432/db", "postgresql://app:***@h:5432/db");
    check_mask("postgresql://h/db?user=u&password=hu sh", "postgresql://h/db?user=u&password=***");
    check_mask("redis://:hush@a:1,redis://b:2", "redis://:***@a:1,redis://b:2");
}

static void check_address(const char *address, const char *host, uint16_t port)
{
    char got[16];
    uint16_t number = 1;
    struct error e;
    assert_int_equal(config_split_address(address, got, sizeof(got), &number, &e), ERR_OK);
    assert_string_equal(got, host);
    assert_int_equal(number, port);
}

static void test_config_split_address__takes_three_forms(void **state)
{
    (void)state;
    check_address("127.0.0.1:6479", "127.0.0.1", 6479);
    check_address("localhost:65535", "localhost", 65535);
    check_address(":80", "", 80);
    check_address(":0", "", 0);
    check_address("[::1]:80", "::1", 80);
    check_address("fifteen-bytes-x:1", "fifteen-bytes-x", 1);
}

static void test_config_split_address__refuses_others(void **state)
{
    (void)state;
    const char *const bad[] = {"",
                               "host",
                               "host:",
                               "host:x",
                               "host:65536",
                               "host:-1",
                               "::1:80",
                               "[::1]80",
                               "[::1]",
                               "[]:80",
                               "[::1:80",
                               "a b:80",
                               "host:+1",
                               "redis://h:1",
                               "host:80 ",
                               "u@h:80",
                               "h:1,h2",
                               "host: 80",
                               "sixteen-bytes-xx:1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char host[16];
        uint16_t port;
        struct error e = {{0}};
        assert_int_equal(config_split_address(bad[i], host, sizeof(host), &port, &e), ERR_PARSE);
        assert_non_null(strchr(e.text, ';'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_print__can_be_read_again),
        cmocka_unit_test(test_config_print__names_every_key),
        cmocka_unit_test(test_config_print__masks_secrets),
        cmocka_unit_test(test_config_mask__finds_passwords_in_every_form),
        cmocka_unit_test(test_config_split_address__takes_three_forms),
        cmocka_unit_test(test_config_split_address__refuses_others),
    };
    return cmocka_run_group_tests_name("config_print", tests, NULL, NULL);
}
