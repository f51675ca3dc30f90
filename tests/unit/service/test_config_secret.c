/* SPDX-License-Identifier: MIT */
/* Passwords from files. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "tests/unit/service/ini.h"

static char path[] = "/tmp/twinbloom-secret-XXXXXX";

static int setup(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    log_set_level(LOG_LEVEL_ERROR);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void keep(const char *secret, size_t length)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(secret, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

/* @format has one %s, for the path of the secret's file. */
static struct config *accept(const char *secret, const char *format)
{
    char text[600];
    keep(secret, strlen(secret));
    (void)snprintf(text, sizeof(text), format, path);
    return ini_accept(text);
}

static void refuse(const char *secret, size_t length, const char *what)
{
    char text[200], message[200];
    keep(secret, length);
    (void)snprintf(text, sizeof(text), "[service]\nthreads = 1\npassword_file = %s\n", path);
    (void)snprintf(message, sizeof(message), "3: 'password_file' %s %s", path, what);
    ini_refuse(text, message);
}

static void test_password_file__is_the_password_of_the_service(void **state)
{
    (void)state;
    static const char *const texts[] = {"a #b; c\n", "a #b; c\r\n", "a #b; c"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct config *c = accept(texts[i], "[service]\nlisten = 0.0.0.0:1\npassword_file = %s\n");
        assert_string_equal(c->password, "a #b; c");
        char *printed = ini_print(c);
        assert_non_null(strstr(printed, "\npassword = ***\n"));
        assert_null(strstr(printed, "a #b"));
        free(printed);
        config_free(c);
    }
}

static void test_password_file__holds_one_line(void **state)
{
    (void)state;
    char text[200];
    static char large[1026];
    memset(large, 'a', sizeof(large));
    refuse("", 0, "is empty; write the password into it");
    refuse("\n", 1, "is empty; write the password into it");
    refuse("a\nb\n", 4, "holds more than one line; write the password alone into it");
    refuse("a\0b", 3, "holds more than one line; write the password alone into it");
    keep(large, 512);
    (void)snprintf(text, sizeof(text), "[service]\npassword_file = %s\n", path);
    ini_refuse(text,
               "1: 'password' has more than 511 bytes, so nobody could log in with it; choose another one");
    keep(large, 511);
    config_free(ini_accept(text));
    refuse(large, sizeof(large), "holds more than 1024 bytes; write the password alone into it");
    ini_refuse(
        "[redis]\npassword_file = /nonexistent/p\n",
        "2: 'password_file' /nonexistent/p cannot be read: No such file or directory; correct the path or "
        "the rights");
    keep("a", 1);
    (void)snprintf(text, sizeof(text), "[service]\npassword = b\npassword_file = %s\n", path);
    ini_refuse(text, "3: 'password' and 'password_file' exclude each other; remove one of them");
}

static void test_password_file__is_for_nodes_that_have_none(void **state)
{
    (void)state;
    struct config *c = accept("p@:/s,\n", "[redis]\npassword_file = %s\nnodes = redis://a, redis://u@b:7/2 ,"
                                          "rediss://u:own@c,unix:///s?db=1, unix://u@/t?password=x\n");
    assert_string_equal(c->nodes,
                        "redis://:p%40%3A%2Fs%2C@a, redis://u:p%40%3A%2Fs%2C@b:7/2, rediss://u:own@c, "
                        "unix://:p%40%3A%2Fs%2C@/s?db=1, unix://u@/t?password=x");
    char *printed = ini_print(c);
    assert_null(strstr(printed, "p%40"));
    free(printed);
    config_free(c);
    c = accept("s", "[redis]\npassword_file = %s\n");
    assert_string_equal(c->nodes, "redis://:s@127.0.0.1:6379");
    config_free(c);
    c = accept("s", "[redis]\npassword_file = %s\ncluster = redis://a, redis://b\n");
    assert_string_equal(c->cluster, "redis://:s@a, redis://:s@b");
    config_free(c);
    c = accept("s", "[redis]\npassword_file = %s\nsentinel = redis://a\nmaster = one, rediss://u@two/1\n");
    assert_string_equal(c->master, "redis://:s@one, rediss://u:s@two/1");
    assert_string_equal(c->sentinel, "redis://a");
    config_free(c);
}

static void test_password_file__is_for_connection_strings_that_have_none(void **state)
{
    (void)state;
    struct config *c = accept("it's \\ &\n", "[postgres]\npassword_file = %s\ndsn = host=a user=b\n"
                                             "read_dsn = postgresql://u@h/d?sslmode=require\n");
    assert_string_equal(c->dsn, "host=a user=b password='it\\'s \\\\ &'");
    assert_string_equal(c->read_dsn, "postgresql://u@h/d?sslmode=require&password=it%27s%20%5C%20%26");
    char *printed = ini_print(c);
    assert_null(strstr(printed, "it"
                                "\\"));
    assert_null(strstr(printed, "%27"));
    free(printed);
    config_free(c);
    c = accept("x",
               "[postgres]\npassword_file = %s\ndsn = postgresql://u:own@h/d\nread_dsn = postgres://h\n");
    assert_string_equal(c->dsn, "postgresql://u:own@h/d");
    assert_string_equal(c->read_dsn, "postgres://h?password=x");
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_password_file__is_the_password_of_the_service),
        cmocka_unit_test(test_password_file__holds_one_line),
        cmocka_unit_test(test_password_file__is_for_nodes_that_have_none),
        cmocka_unit_test(test_password_file__is_for_connection_strings_that_have_none),
    };
    return cmocka_run_group_tests_name("config_secret", tests, setup, teardown);
}
