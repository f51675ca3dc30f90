/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "shard/log/entry.h"

static const uint8_t writer[LOG_WRITER_BYTES] = "sixteen letters";

static void test_entry_encode__writes_these_very_bytes(void **state)
{
    (void)state;
    static const uint8_t wanted[] = {0xb1, 1,    2,    0,    's',  'i',  'x',  't',  'e', 'e',
                                     'n',  ' ',  'l',  'e',  't',  't',  'e',  'r',  's', 0,
                                     0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* sequence */
                                     2,    0,    0,    0,    0,    0,    0,    0,    1,   0,
                                     0,    0,    0,    0,    0,    0x80, /* low, high */
                                     4,    0,    0,    0,    0,    0,    0,    0,    3,   0,
                                     0,    0,    0,    0,    0,    0};
    const struct key_hash keys[] = {{.high = 0x8000000000000001, .low = 2}, {.high = 3, .low = 4}};
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    size_t length = log_entry_encode(bytes, writer, 0x0102030405060708, keys, 2);
    assert_int_equal(length, sizeof(wanted));
    assert_memory_equal(bytes, wanted, sizeof(wanted));
}

static void check_round(unsigned count)
{
    struct key_hash keys[LOG_KEYS_MAX];
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct log_entry entry;
    struct error e;
    for (unsigned i = 0; i < count; i++)
        keys[i] = (struct key_hash){.high = UINT64_MAX - i, .low = i};
    size_t length = log_entry_encode(bytes, writer, UINT64_MAX, keys, count);
    assert_int_equal(log_entry_decode(&entry, bytes, length, &e), ERR_OK);
    assert_int_equal(entry.count, count);
    assert_true(entry.sequence == UINT64_MAX);
    assert_memory_equal(entry.writer, writer, sizeof(writer));
    for (unsigned i = 0; i < count; i++) {
        struct key_hash h = log_entry_hash(&entry, i);
        assert_true(h.high == keys[i].high && h.low == keys[i].low);
    }
}

static void test_entry_decode__gives_back_what_was_encoded(void **state)
{
    (void)state;
    check_round(0); /* a notice */
    check_round(1);
    check_round(LOG_KEYS_MAX);
}

static void refused(const uint8_t *bytes, size_t length, enum err code)
{
    struct log_entry entry = {.sequence = 7};
    struct error e = {""};
    assert_int_equal(log_entry_decode(&entry, bytes, length, &e), code);
    assert_true(e.text[0] != '\0' && entry.sequence == 7);
}

static void test_entry_decode__refuses_what_is_no_entry(void **state)
{
    (void)state;
    struct key_hash keys[LOG_KEYS_MAX] = {{0}};
    uint8_t bytes[LOG_ENTRY_BYTES_MAX + LOG_HASH_BYTES] = {0};
    size_t length = log_entry_encode(bytes, writer, 1, keys, LOG_KEYS_MAX);
    refused(bytes, 0, ERR_PARSE);
    refused(bytes, LOG_ENTRY_BYTES_MIN - 1, ERR_PARSE);
    refused(bytes, length - 1, ERR_PARSE);
    refused(bytes, length + 1, ERR_PARSE);
    bytes[2] = LOG_KEYS_MAX + 1; /* one key too many, with all its bytes */
    refused(bytes, length + LOG_HASH_BYTES, ERR_PARSE);
    bytes[2] = LOG_KEYS_MAX;
    bytes[1] = 0;
    refused(bytes, length, ERR_PARSE);
    bytes[1] = LOG_FORMAT + 1;
    refused(bytes, length, ERR_FORMAT);
    refused(bytes, 2, ERR_FORMAT);
    bytes[0] = 'g';
    refused(bytes, length, ERR_PARSE);
    refused(bytes, 1, ERR_PARSE);
}

/* The entry has the same bytes whoever writes it. */
static void test_entry_encode_full__names_its_generation(void **state)
{
    (void)state;
    static const uint8_t wanted[LOG_ENTRY_BYTES_MIN] = {0xb1, 1, 0, 1, [20] = 0x08, 0x07};
    static const unsigned places[] = {2, 3, 4, 19};
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct log_entry entry;
    struct error e;
    assert_int_equal(log_entry_encode_full(bytes, 0x0708), sizeof(wanted));
    assert_memory_equal(bytes, wanted, sizeof(wanted));
    assert_int_equal(log_entry_decode(&entry, bytes, sizeof(wanted), &e), ERR_OK);
    assert_true(entry.kind == LOG_FULL && entry.sequence == 0x0708 && entry.count == 0);
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) { /* number of keys, kind, writer */
        bytes[places[i]] += 2;
        refused(bytes, sizeof(wanted), ERR_PARSE);
        bytes[places[i]] -= 2;
    }
    bytes[20] = bytes[21] = 0; /* no generation */
    refused(bytes, sizeof(wanted), ERR_PARSE);
    (void)log_entry_encode(bytes, writer, 7, NULL, 0);
    assert_int_equal(log_entry_decode(&entry, bytes, LOG_ENTRY_BYTES_MIN, &e), ERR_OK);
    assert_int_equal(entry.kind, LOG_KEYS);
}

static void test_entry_encode_layer__names_generation_and_layer(void **state)
{
    (void)state;
    static const uint8_t wanted[LOG_ENTRY_BYTES_MIN] = {0xb1, 1, 0, 2, 23, [20] = 0x08, 0x07};
    static const unsigned places[] = {2, 3, 4, 5, 19}; /* number of keys, kind, layer, writer */
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct log_entry entry;
    struct error e;
    assert_int_equal(log_entry_encode_layer(bytes, 0x0708, 23), sizeof(wanted));
    assert_memory_equal(bytes, wanted, sizeof(wanted));
    assert_int_equal(log_entry_decode(&entry, bytes, sizeof(wanted), &e), ERR_OK);
    assert_true(entry.kind == LOG_LAYER && entry.sequence == 0x0708 && entry.layer == 23 && entry.count == 0);
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        bytes[places[i]] ^= 0x40;
        refused(bytes, sizeof(wanted), ERR_PARSE);
        bytes[places[i]] ^= 0x40;
    }
    bytes[4] = 0; /* layer 0 begins with the generation, so it has no entry */
    refused(bytes, sizeof(wanted), ERR_PARSE);
    (void)log_entry_encode_full(bytes, 0x0708);
    assert_int_equal(log_entry_decode(&entry, bytes, sizeof(wanted), &e), ERR_OK);
    assert_int_equal(entry.layer, 0);
}

static void test_entry_encode_removal__names_a_registration(void **state)
{
    (void)state;
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct log_entry entry;
    struct error e;
    assert_int_equal(log_entry_encode_removal(bytes, writer, 0x0708), LOG_ENTRY_BYTES_MIN);
    assert_int_equal(bytes[3], 3);
    assert_int_equal(log_entry_decode(&entry, bytes, LOG_ENTRY_BYTES_MIN, &e), ERR_OK);
    assert_true(entry.kind == LOG_REMOVAL && entry.sequence == 0x0708 && entry.count == 0);
    assert_memory_equal(entry.writer, writer, LOG_WRITER_BYTES);
    bytes[2]++; /* with a key */
    refused(bytes, LOG_ENTRY_BYTES_MIN, ERR_PARSE);
    bytes[2]--;
    bytes[20] = bytes[21] = 0; /* no registration */
    refused(bytes, LOG_ENTRY_BYTES_MIN, ERR_PARSE);
    (void)log_entry_encode_removal(bytes, writer, 1);
    memset(bytes + 4, 0, LOG_WRITER_BYTES); /* no writer */
    refused(bytes, LOG_ENTRY_BYTES_MIN, ERR_PARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entry_encode_layer__names_generation_and_layer),
        cmocka_unit_test(test_entry_encode_full__names_its_generation),
        cmocka_unit_test(test_entry_encode_removal__names_a_registration),
        cmocka_unit_test(test_entry_encode__writes_these_very_bytes),
        cmocka_unit_test(test_entry_decode__gives_back_what_was_encoded),
        cmocka_unit_test(test_entry_decode__refuses_what_is_no_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
