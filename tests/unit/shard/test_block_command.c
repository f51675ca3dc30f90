/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/block_command.h"
#include "shard/generation.h"

enum { TAG = 0xbeef, ARGUMENTS_MAX = 6 + 4 * GEOMETRY_HASHES_MAX };

static const struct geometry small = {.shards = 7, .blocks = 9, .block_bits = 1024, .hashes = 3};

static struct names names_of(const char *filter, size_t length)
{
    struct names n;
    struct error e = {""};
    if (names_init(&n, "test", filter, length, &e) != ERR_OK)
        fail_msg("%s", e.text);
    n.incarnation = 0x0123456789abcdef;
    return n;
}

/* The command as hiredis formats it for the same arguments: what any Redis client would send. */
static void assert_sends(const struct block_command *c, int argc, const char **argv, const size_t *lengths)
{
    char *wanted = NULL;
    long long n = redisFormatCommandArgv(&wanted, argc, argv, lengths);
    assert_true(n > 0);
    if (c->length != (size_t)n || memcmp(c->text, wanted, (size_t)n) != 0)
        fail_msg("sent:\n%.*s\nexpected:\n%s", (int)c->length, c->text, wanted);
    redisFreeCommand(wanted);
}

static void check_read(const struct names *names, const struct geometry *g, struct shard_id id,
                       uint64_t epoch, const struct key_place *place)
{
    struct block_command c;
    struct key_name name;
    char from[24], to[24];
    uint64_t bytes = g->block_bits / 8;
    names_shard(names, id, epoch, &name);
    int from_length = snprintf(from, sizeof(from), "%" PRIu64, place->block * bytes);
    int to_length = snprintf(to, sizeof(to), "%" PRIu64, (place->block + 1) * bytes - 1);
    const char *argv[] = {"GETRANGE", name.text, from, to};
    const size_t lengths[] = {8, name.length, (size_t)from_length, (size_t)to_length};
    block_command_format(&c, BLOCK_READ, names, epoch, id.generation, id.layer, g, place);
    assert_sends(&c, 4, argv, lengths);
}

static void check_add(const struct names *names, const struct geometry *g, struct shard_id id, uint64_t epoch,
                      const struct key_place *place)
{
    struct block_command c;
    struct key_name name;
    static char offsets[GEOMETRY_HASHES_MAX + 1][24];
    const char *argv[ARGUMENTS_MAX];
    size_t lengths[ARGUMENTS_MAX];
    uint64_t base = (uint64_t)place->block * g->block_bits;
    int argc = 0;
    names_shard(names, id, epoch, &name);
    (void)snprintf(offsets[0], sizeof(offsets[0]), "%" PRIu64, base);
    argv[argc++] = "BITFIELD";
    argv[argc++] = name.text;
    argv[argc++] = "GET";
    argv[argc++] = "u16";
    argv[argc++] = offsets[0];
    for (uint32_t i = 0; i < g->hashes; i++) {
        (void)snprintf(offsets[i + 1], sizeof(offsets[i + 1]), "%" PRIu64, base + place->bits[i]);
        argv[argc++] = "SET";
        argv[argc++] = "u1";
        argv[argc++] = offsets[i + 1];
        argv[argc++] = "1";
    }
    for (int i = 0; i < argc; i++)
        lengths[i] = i == 1 ? name.length : strlen(argv[i]);
    block_command_format(&c, BLOCK_ADD, names, epoch, id.generation, id.layer, g, place);
    assert_sends(&c, argc, argv, lengths);
}

static void test_block_command_format__sends_what_a_redis_client_would(void **state)
{
    (void)state;
    static const struct geometry geometries[] = {
        {.shards = 7, .blocks = 9, .block_bits = 1024, .hashes = 3},
        {.shards = 1, .blocks = 1, .block_bits = 512, .hashes = 1},
        {.shards = 3, .blocks = 16383, .block_bits = 512, .hashes = 10},
        {.shards = 100000, .blocks = 2047, .block_bits = 4096, .hashes = GEOMETRY_HASHES_MAX},
    };
    struct names names = names_of("short-link", 10);
    for (size_t i = 0; i < sizeof(geometries) / sizeof(geometries[0]); i++)
        for (unsigned k = 0; k < 200; k++) {
            struct key_place place;
            hash_place(&geometries[i], hash_key(42, &k, sizeof(k)), &place);
            struct shard_id id = {.generation = 1 + k, .layer = k % 3, .shard = place.shard};
            check_read(&names, &geometries[i], id, 1 + (uint64_t)k * k, &place);
            check_add(&names, &geometries[i], id, 1 + (uint64_t)k * k, &place);
        }
}

static void test_block_command_format__has_room_for_the_longest_names_and_numbers(void **state)
{
    (void)state;
    const struct geometry g = {
        .shards = INT32_MAX, .blocks = 2047, .block_bits = 4096, .hashes = GEOMETRY_HASHES_MAX};
    char filter[FILTER_NAME_MAX], prefix[PREFIX_MAX + 1] = "";
    struct names names;
    struct error e = {""};
    memset(filter, 'f', sizeof(filter));
    memset(prefix, 'p', PREFIX_MAX);
    if (names_init(&names, prefix, filter, sizeof(filter), &e) != ERR_OK)
        fail_msg("%s", e.text);
    names.incarnation = UINT64_MAX;
    struct key_place place = {.shard = INT32_MAX - 1, .block = g.blocks - 1};
    for (unsigned i = 0; i < GEOMETRY_HASHES_MAX; i++)
        place.bits[i] = (uint16_t)(g.block_bits - 1);
    struct shard_id id = {.generation = UINT64_MAX, .layer = GENERATION_LAYERS_MAX - 1, .shard = place.shard};
    check_read(&names, &g, id, UINT64_MAX, &place);
    check_add(&names, &g, id, UINT64_MAX, &place);
}

static void test_block_command_format__carries_any_byte_of_a_filters_name(void **state)
{
    (void)state;
    static const char odd[] = "a b\"\r\n$3\r\n\0{x}%\xff";
    struct names names = names_of(odd, sizeof(odd) - 1);
    struct key_place place = {.shard = 3, .block = 4, .bits = {16, 17, 1023}};
    struct shard_id id = {.generation = 1, .layer = 0, .shard = 3};
    check_read(&names, &small, id, 5, &place);
    check_add(&names, &small, id, 5, &place);
}

/* --- replies --- */

/* Parse a reply as Redis writes it; the caller frees it. */
static redisReply *reply_of(const char *bytes, size_t length)
{
    void *reply = NULL;
    redisReader *r = redisReaderCreate();
    assert_int_equal(redisReaderFeed(r, bytes, length), REDIS_OK);
    assert_int_equal(redisReaderGetReply(r, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(r);
    return reply;
}

static const struct key_place three_bits = {.shard = 1, .block = 2, .bits = {16, 100, 1023}};

static enum block_answer answer_to(enum block_command_kind kind, const char *bytes, size_t length)
{
    redisReply *reply = reply_of(bytes, length);
    enum block_answer answer = block_command_read(kind, &small, TAG, &three_bits, reply);
    freeReplyObject(reply);
    return answer;
}

#define ANSWER(kind, literal) answer_to((kind), (literal), sizeof(literal) - 1)

/* A GETRANGE reply of @length bytes that begin with @tag and have the bits of @set set. */
static enum block_answer answer_to_block(size_t length, uint16_t tag, const uint16_t *set, size_t count)
{
    uint8_t block[2048] = {(uint8_t)(tag >> 8), (uint8_t)(tag & 0xff)};
    char bytes[2100];
    for (size_t i = 0; i < count; i++)
        block[set[i] / 8] |= (uint8_t)(0x80u >> set[i] % 8);
    int n = snprintf(bytes, sizeof(bytes), "$%zu\r\n", length);
    memcpy(bytes + n, block, length);
    bytes[(size_t)n + length] = '\r';
    bytes[(size_t)n + length + 1] = '\n';
    return answer_to(BLOCK_READ, bytes, (size_t)n + length + 2);
}

static void test_block_command_read__tells_present_from_absent_in_a_block(void **state)
{
    (void)state;
    assert_int_equal(answer_to_block(128, TAG, three_bits.bits, 3), BLOCK_PRESENT);
    assert_int_equal(answer_to_block(128, TAG, NULL, 0), BLOCK_ABSENT);
    for (size_t missing = 0; missing < 3; missing++) {
        uint16_t two[2];
        for (size_t i = 0, n = 0; i < 3; i++)
            if (i != missing)
                two[n++] = three_bits.bits[i];
        assert_int_equal(answer_to_block(128, TAG, two, 2), BLOCK_ABSENT);
    }
}

static void test_block_command_read__takes_a_block_without_its_tag_for_no_answer(void **state)
{
    (void)state;
    assert_int_equal(answer_to_block(128, 0, three_bits.bits, 3), BLOCK_BAD);
    assert_int_equal(answer_to_block(128, TAG ^ 1, three_bits.bits, 3), BLOCK_BAD);
    assert_int_equal(answer_to_block(128, TAG ^ 0x8000, NULL, 0), BLOCK_BAD);
    assert_int_equal(answer_to_block(128, 0xefbe, NULL, 0), BLOCK_BAD); /* the other byte order */
}

static void test_block_command_read__takes_a_block_of_another_length_for_no_answer(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 2, 3, 64, 127, 129, 256};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        assert_int_equal(answer_to_block(lengths[i], TAG, NULL, 0), BLOCK_BAD);
}

static void test_block_command_read__takes_another_type_for_no_answer_to_a_check(void **state)
{
    (void)state;
    assert_int_equal(ANSWER(BLOCK_READ, "-WRONGTYPE Operation against a key\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_READ, "$-1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_READ, "*-1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_READ, "+OK\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_READ, ":1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_READ, "*0\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_READ, "*4\r\n:48879\r\n:1\r\n:1\r\n:1\r\n"), BLOCK_BAD);
}

/* Redis did not run the command: the shard may be whole. A WRONGTYPE says that it is not there. */
static void test_block_command_read__tells_a_refusal_from_a_lost_shard(void **state)
{
    (void)state;
    for (int kind = BLOCK_READ; kind <= (int)BLOCK_ADD; kind++) {
        assert_int_equal(ANSWER((enum block_command_kind)kind, "-LOADING Redis is loading\r\n"),
                         BLOCK_REFUSED);
        assert_int_equal(ANSWER((enum block_command_kind)kind, "-OOM command not allowed\r\n"),
                         BLOCK_REFUSED);
        assert_int_equal(ANSWER((enum block_command_kind)kind, "-READONLY\r\n"), BLOCK_REFUSED);
        assert_int_equal(ANSWER((enum block_command_kind)kind, "-\r\n"), BLOCK_REFUSED);
        assert_int_equal(ANSWER((enum block_command_kind)kind, "-WRONGTYPE Operation\r\n"), BLOCK_BAD);
    }
}

/* An error or status reply is as long as its text: one that begins with the tag is no block all the same. */
static void test_block_command_read__takes_no_error_for_a_block(void **state)
{
    (void)state;
    static const char kinds[] = {'-', '+'};
    for (size_t k = 0; k < 2; k++) {
        char bytes[131];
        memset(bytes, 0xff, sizeof(bytes));
        bytes[0] = kinds[k];
        bytes[1] = (char)(TAG >> 8);
        bytes[2] = (char)(TAG & 0xff);
        bytes[129] = '\r';
        bytes[130] = '\n';
        assert_int_equal(answer_to(BLOCK_READ, bytes, sizeof(bytes)),
                         kinds[k] == '-' ? BLOCK_REFUSED : BLOCK_BAD);
    }
}

static void test_block_command_read__tells_a_new_key_from_an_old_one(void **state)
{
    (void)state;
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:48879\r\n:1\r\n:1\r\n:1\r\n"), BLOCK_PRESENT);
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:48879\r\n:0\r\n:0\r\n:0\r\n"), BLOCK_ABSENT);
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:48879\r\n:0\r\n:1\r\n:1\r\n"), BLOCK_ABSENT);
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:48879\r\n:1\r\n:0\r\n:1\r\n"), BLOCK_ABSENT);
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:48879\r\n:1\r\n:1\r\n:0\r\n"), BLOCK_ABSENT);
}

static void test_block_command_read__takes_an_add_without_the_tag_for_not_done(void **state)
{
    (void)state;
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:0\r\n:0\r\n:0\r\n:0\r\n"), BLOCK_BAD); /* the key was absent */
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:0\r\n:1\r\n:1\r\n:1\r\n"), BLOCK_BAD); /* a zombie */
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:48878\r\n:1\r\n:1\r\n:1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:114415\r\n:1\r\n:1\r\n:1\r\n"), BLOCK_BAD); /* 0x10000 more */
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:-16657\r\n:1\r\n:1\r\n:1\r\n"),
                     BLOCK_BAD); /* as a signed number */
}

static void test_block_command_read__takes_another_shape_for_no_answer_to_an_add(void **state)
{
    (void)state;
    assert_int_equal(ANSWER(BLOCK_ADD, "-WRONGTYPE Operation against a key\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "$-1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "*-1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "*0\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, ":48879\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "+OK\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "*3\r\n:48879\r\n:1\r\n:1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "*5\r\n:48879\r\n:1\r\n:1\r\n:1\r\n:1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:48879\r\n:1\r\n$-1\r\n:1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n:48879\r\n:1\r\n:1\r\n$1\r\n1\r\n"), BLOCK_BAD);
    assert_int_equal(ANSWER(BLOCK_ADD, "*4\r\n$5\r\n48879\r\n:1\r\n:1\r\n:1\r\n"), BLOCK_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_command_format__sends_what_a_redis_client_would),
        cmocka_unit_test(test_block_command_format__has_room_for_the_longest_names_and_numbers),
        cmocka_unit_test(test_block_command_format__carries_any_byte_of_a_filters_name),
        cmocka_unit_test(test_block_command_read__tells_present_from_absent_in_a_block),
        cmocka_unit_test(test_block_command_read__takes_a_block_without_its_tag_for_no_answer),
        cmocka_unit_test(test_block_command_read__takes_a_block_of_another_length_for_no_answer),
        cmocka_unit_test(test_block_command_read__takes_another_type_for_no_answer_to_a_check),
        cmocka_unit_test(test_block_command_read__tells_a_refusal_from_a_lost_shard),
        cmocka_unit_test(test_block_command_read__takes_no_error_for_a_block),
        cmocka_unit_test(test_block_command_read__tells_a_new_key_from_an_old_one),
        cmocka_unit_test(test_block_command_read__takes_an_add_without_the_tag_for_not_done),
        cmocka_unit_test(test_block_command_read__takes_another_shape_for_no_answer_to_an_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
