/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "shard/log/position.h"

static const uint8_t writer[LOG_WRITER_BYTES] = "sixteen letters";

static void make(struct log_position *p, struct log_id id, unsigned keys)
{
    struct key_hash hashes[LOG_KEYS_MAX];
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    for (unsigned i = 0; i < keys; i++)
        hashes[i] = (struct key_hash){.high = i * UINT64_C(0x9e3779b97f4a7c15), .low = ~(uint64_t)i};
    log_position_set(p, id, bytes, log_entry_encode(bytes, writer, 5, hashes, keys));
}

static void test_id_compare__goes_by_time_then_number(void **state)
{
    (void)state;
    assert_true(log_id_compare((struct log_id){2, 0}, (struct log_id){1, 9}) > 0);
    assert_true(log_id_compare((struct log_id){1, 9}, (struct log_id){2, 0}) < 0);
    assert_true(log_id_compare((struct log_id){1, 2}, (struct log_id){1, 10}) < 0);
    assert_true(log_id_compare((struct log_id){1, 10}, (struct log_id){1, 2}) > 0);
    assert_int_equal(log_id_compare((struct log_id){1, 2}, (struct log_id){1, 2}), 0);
}

static void test_id_parse__reads_what_redis_writes_and_nothing_else(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",    "-",    "1",    "1-",   "-1",
                                        "1-x", "1--1", " 1-1", "1-1 ", "18446744073709551616-0"};
    static const char last[] = "18446744073709551615-18446744073709551615";
    char text[LOG_ID_TEXT_MAX];
    struct log_id id = {0};
    assert_true(log_id_parse(&id, last, strlen(last)));
    assert_true(id.ms == UINT64_MAX && id.number == UINT64_MAX);
    assert_int_equal(log_id_format(id, text), strlen(last));
    assert_string_equal(text, last);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(log_id_parse(&id, wrong[i], strlen(wrong[i])));
    assert_true(id.ms == UINT64_MAX);
}

static void test_position_is__wants_the_id_and_every_byte(void **state)
{
    (void)state;
    struct log_position p, other;
    make(&p, (struct log_id){7, 8}, 3);
    make(&other, (struct log_id){7, 8}, 3);
    assert_true(log_position_is(&p, other.id, other.bytes, other.length));
    assert_false(log_position_is(&p, (struct log_id){7, 9}, other.bytes, other.length));
    assert_false(log_position_is(&p, other.id, other.bytes, other.length - 1));
    other.bytes[other.length - 1] ^= 1;
    assert_false(log_position_is(&p, other.id, other.bytes, other.length));
}

static void test_position_parse__gives_back_what_was_formatted(void **state)
{
    (void)state;
    struct buffer text = {0};
    struct log_position p, again;
    struct error e = {""};
    for (unsigned keys = 0; keys <= LOG_KEYS_MAX; keys += LOG_KEYS_MAX) {
        make(&p, (struct log_id){UINT64_MAX, 0}, keys);
        buffer_clear(&text);
        log_position_format(&p, &text);
        assert_false(buffer_failed(&text));
        assert_int_equal(log_position_parse(&again, text.data, text.length, &e), ERR_OK);
        assert_true(log_position_is(&p, again.id, again.bytes, again.length));
    }
    buffer_fini(&text);
}

static void test_position_parse__refuses_what_is_none(void **state)
{
    (void)state;
    struct buffer text = {0};
    struct log_position p, out;
    struct error e = {""};
    make(&p, (struct log_id){7, 8}, LOG_KEYS_MAX);
    log_position_format(&p, &text);
    buffer_append(&text, "00", 2); /* longer than any entry */
    assert_int_equal(log_position_parse(&out, text.data, text.length, &e), ERR_PARSE);
    assert_int_equal(log_position_parse(&out, text.data, text.length - 3, &e), ERR_PARSE); /* half a byte */
    /* The entry lacks a byte. */
    assert_int_equal(log_position_parse(&out, text.data, text.length - 4, &e), ERR_PARSE);
    text.data[text.length - 3] = 'G';
    assert_int_equal(log_position_parse(&out, text.data, text.length - 2, &e), ERR_PARSE);
    assert_int_equal(log_position_parse(&out, "7-8", 3, &e), ERR_PARSE);
    assert_int_equal(log_position_parse(&out, "7-8 ", 4, &e), ERR_PARSE);
    assert_int_equal(log_position_parse(&out, "", 0, &e), ERR_PARSE);
    buffer_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_id_compare__goes_by_time_then_number),
        cmocka_unit_test(test_id_parse__reads_what_redis_writes_and_nothing_else),
        cmocka_unit_test(test_position_is__wants_the_id_and_every_byte),
        cmocka_unit_test(test_position_parse__gives_back_what_was_formatted),
        cmocka_unit_test(test_position_parse__refuses_what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
