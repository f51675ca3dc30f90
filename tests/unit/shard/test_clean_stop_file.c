/* SPDX-License-Identifier: MIT */
/* The state file as it may lie there: whole, cut, or with other bytes. Nothing listens where its nodes are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "shard/members/clean_stop.h"
#include "shard/redis/nodes/nodes.h"

#define KNOWN                                                                                                \
    "twinbloom state 1\nprefix p\nnode 127.0.0.1:1\nids 00000000000000a1 00000000000000a2\n"                 \
    "now 00000000000000a3 00000000000000b1 7\nnode 127.0.0.1:2\nids 00000000000000c1\nend\n"
#define MARKED                                                                                               \
    "twinbloom state 1\nprefix p\nmark 0123456789abcdef0123456789abcdef\nnode 127.0.0.1:1\n"                 \
    "ids 00000000000000a1\nend\n"

static char path[] = "/tmp/twinbloom-state-XXXXXX";
static struct nodes nodes;
static struct sync_client *client;
static const struct replication now = {.id = 0xa3, .node = "127.0.0.1:1"};

static int set_up(void **state)
{
    struct error e;
    (void)state;
    int file = mkstemp(path);
    assert_true(file >= 0 && close(file) == 0);
    assert_int_equal(nodes_parse(&nodes, "redis://127.0.0.1:1, redis://127.0.0.1:2", &e), ERR_OK);
    client = sync_client_new(&nodes, 100, NULL);
    assert_non_null(client);
    log_set_level(LOG_LEVEL_ERROR);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sync_client_free(client);
    return unlink(path);
}

/* What looking at a file with that text ends with. *@knows: it tells that 0xa1 goes on. */
static enum err look(const char *text, size_t length, bool *knows)
{
    struct error e;
    struct clean_stop *s;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(clean_stop_open(&s, path, "p", &e), ERR_OK);
    enum err code = clean_stop_look(s, client, &e);
    *knows = clean_stop_goes_on(s, 0xa1, &now);
    clean_stop_free(s);
    return code;
}

static void test_what_is_known__is_what_the_file_says(void **state)
{
    bool knows;
    struct error e;
    struct clean_stop *s, *other;
    struct replication later = now;
    (void)state;
    assert_int_equal(look(KNOWN, strlen(KNOWN), &knows), ERR_OK);
    assert_true(knows);
    assert_int_equal(look("", 0, &knows), ERR_OK);
    assert_false(knows);
    assert_int_equal(look(KNOWN, strlen(KNOWN), &knows), ERR_OK);
    assert_int_equal(clean_stop_open(&s, path, "p", &e), ERR_OK);
    assert_int_equal(clean_stop_look(s, client, &e), ERR_OK);
    assert_true(clean_stop_goes_on(s, 0xa2, &now));
    assert_false(clean_stop_goes_on(s, 0xa4, &now)); /* another id before */
    later.id = 0xa4;
    later.run = 0xb1;
    later.received = 7;
    assert_true(clean_stop_goes_on(s, 0xa1, &later)); /* a replica attached */
    later.received = 8;
    assert_false(clean_stop_goes_on(s, 0xa1, &later)); /* it was a replica meanwhile */
    later = now;
    (void)snprintf(later.node, sizeof(later.node), "127.0.0.1:2");
    assert_false(clean_stop_goes_on(s, 0xc1, &later)); /* nothing is known of the second node */
    assert_int_equal(clean_stop_open(&other, path, "p", &e), ERR_OK);
    assert_int_equal(clean_stop_look(other, client, &e), ERR_BUSY); /* the first one is about to start */
    clean_stop_free(other);
    clean_stop_free(s);
}

static void test_a_mark__is_compared_first(void **state)
{
    bool knows;
    (void)state;
    assert_int_equal(look(MARKED, strlen(MARKED), &knows), ERR_UNREACHABLE);
    assert_false(knows);
}

static void test_a_file_that_was_cut__tells_nothing(void **state)
{
    bool knows;
    (void)state;
    for (size_t length = 0; length < strlen(KNOWN); length++) {
        assert_int_equal(look(KNOWN, length, &knows), ERR_OK);
        assert_false(knows);
    }
    for (size_t length = 0; length < strlen(MARKED); length++)
        assert_int_equal(look(MARKED, length, &knows), ERR_OK);
}

static void test_other_bytes__do_no_harm(void **state)
{
    static const char bytes[] = {'\0', '\n', ' ', 'f', '~', (char)0xff};
    char text[sizeof(KNOWN)];
    bool knows;
    (void)state;
    for (size_t at = 0; at < strlen(KNOWN); at++)
        for (size_t i = 0; i < sizeof(bytes); i++) {
            memcpy(text, KNOWN, sizeof(text));
            text[at] = bytes[i];
            enum err code = look(text, strlen(KNOWN), &knows);
            assert_true(code == ERR_OK || code == ERR_CONFIG); /* another prefix */
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_known__is_what_the_file_says),
        cmocka_unit_test(test_a_mark__is_compared_first),
        cmocka_unit_test(test_a_file_that_was_cut__tells_nothing),
        cmocka_unit_test(test_other_bytes__do_no_harm),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
