/* SPDX-License-Identifier: MIT */
/* BF.LOADCHUNK loads a filter completely, or not at all. */
#include "tests/integration/dumps.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/filter/dump.h"
#include "shard/filter/names.h"

static struct two two;

static int setup(void **state)
{
    (void)state;
    return two_start(&two);
}

static int teardown(void **state)
{
    (void)state;
    return two_stop(&two);
}

static void test_loadchunk__refuses_in_the_order_of_the_contract(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    two_make(&two, "lc", 100, 20, &d);
    two_says(&two.to, "BF.LOADCHUNK nosuch abc x", "ERR Second argument must be numeric");
    two_says(&two.to, "BF.LOADCHUNK nosuch 1 x",
             "ERR received bad data: this is no piece of a Twinbloom dump (a dump of RedisBloom cannot be "
             "loaded)");
    two_says(&two.to, "BF.LOADCHUNK nosuch 1", "ERR wrong number of arguments for 'bf.loadchunk' command");
    two_refused(dump_load(&d.piece[1], &two.to, "lc", &e), &e, "ERR not found");
    two_refused(dump_load(&d.piece[0], &two.to, "configured", &e), &e, "ERR item exists");

    struct piece wrong = d.piece[0];
    wrong.position++;
    two_refused(dump_load(&wrong, &two.to, "lc", &e), &e, "ERR invalid offset - no link found");
    wrong = d.piece[0];
    wrong.length--;
    two_refused(dump_load(&wrong, &two.to, "lc", &e), &e, "ERR received bad data");
    assert_int_equal(two_count_keys(&two, "other:{lc*"), 0);

    must(dump_load(&d.piece[0], &two.to, "lc", &e), e);
    wrong = d.piece[1];
    wrong.data[DUMP_CHUNK_HEADER + 5] ^= 4;
    two_refused(dump_load(&wrong, &two.to, "lc", &e), &e, "ERR received bad data");
    wrong.data[DUMP_CHUNK_HEADER + 5] ^= 4;
    wrong.length--;
    two_refused(dump_load(&wrong, &two.to, "lc", &e), &e, "ERR received bad data");
    wrong = d.piece[1];
    wrong.position++;
    two_refused(dump_load(&wrong, &two.to, "lc", &e), &e, "ERR invalid offset - no link found");
    wrong.position = 1;
    two_refused(dump_load(&wrong, &two.to, "lc", &e), &e, "ERR invalid offset - no link found");
    two_says(&two.to, "BF.LOADCHUNK lc 1 x", "ERR received bad data");
    assert_int_equal(two_count_keys(&two, "other:{lc.*"), 0);

    must(dump_load(&d.piece[1], &two.to, "lc", &e), e);
    must(dump_load(&d.piece[1], &two.to, "lc", &e), e); /* as if the reply had been lost */
    two_refused(dump_load(&d.piece[0], &two.to, "lc", &e), &e, "ERR item exists");
    two_all_present(&two.to, "lc", 0, 20);
    dump_free(&d);
}

/* DEL ends a load, whether the filter exists or not, and deletes the load's data. */
static void test_loadchunk__ends_with_del(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    two_make_layers(&two, "ended", &d);
    assert_true(d.count > 3);
    for (unsigned other = 0; other < 2; other++) {
        must(dump_load(&d.piece[0], &two.to, "ended", &e), e);
        must(dump_load(&d.piece[1], &two.to, "ended", &e), e);
        assert_int_not_equal(two_count_keys(&two, "other:{ended.*:*.n*"), 0);
        if (other == 1)
            two_says(&two.to, "BF.RESERVE ended 0.01 100", "OK");
        int64_t deleted = -1;
        must(client_integer(&two.to, &deleted, &e, "DEL ended"), e);
        assert_int_equal(deleted, other);
        assert_int_equal(two_count_keys(&two, "other:{ended.*:*.n*"), 0);
        assert_int_equal(two_count_keys(&two, "other:{ended}:load"), 0);
        for (size_t i = 2; i < d.count; i++)
            two_refused(dump_load(&d.piece[i], &two.to, "ended", &e), &e, "ERR not found");
        int64_t there = -1;
        must(client_integer(&two.to, &there, &e, "EXISTS ended"), e);
        assert_int_equal(there, 0);
    }
    must(dump_load_all(&d, &two.to, "ended", &e), e);
    two_all_present(&two.to, "ended", 0, 3000);
    dump_free(&d);
}

/* E.g. another version has written the record. */
static void test_loadchunk__that_cannot_be_read_ends_with_del(void **state)
{
    (void)state;
    static const char *const spoil[] = {"HSET other:{spoilt}:load header another",
                                        "HSET other:{spoilt}:load incarnation another"};
    struct error e = {""};
    struct dump d = {0};
    two_make_layers(&two, "spoilt", &d);
    for (size_t i = 0; i < sizeof(spoil) / sizeof(spoil[0]); i++) {
        int64_t n = -1;
        must(dump_load(&d.piece[0], &two.to, "spoilt", &e), e);
        must(client_integer(&two.to_node, &n, &e, spoil[i]), e);
        two_says(&two.to, "BF.RESERVE spoilt 0.01 100", "OK");
        must(client_integer(&two.to, &n, &e, "DEL spoilt"), e);
        assert_int_equal(n, 1);
        must(client_integer(&two.to, &n, &e, "EXISTS spoilt"), e);
        assert_int_equal(n, 0);
        assert_int_equal(two_count_keys(&two, "other:{spoilt}:load"), 0);
    }
    must(dump_load_all(&d, &two.to, "spoilt", &e), e);
    dump_free(&d);
}

/* Forged chunks with right checksums. */
static void test_loadchunk__believes_no_chunk_that_does_not_fit_the_header(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    struct dump_header h;
    struct dump_run run;
    two_make(&two, "fit", 100, 1, &d);
    must(dump_header_decode(&h, d.piece[0].data, d.piece[0].length, &e), e);
    assert_true(dump_run_at(&h, 1, &run));
    must(dump_load(&d.piece[0], &two.to, "fit", &e), e);
    uint8_t *bytes = calloc(1, DUMP_CHUNK_HEADER + 2 * run.bytes);
    struct piece p = {.position = d.piece[1].position, .data = (char *)bytes};

    struct dump_run large = run;
    large.bytes = 2 * run.bytes;
    large.count = 2;
    dump_chunk_encode(&h, 1, &large, bytes);
    p.length = DUMP_CHUNK_HEADER + large.bytes;
    two_refused(dump_load(&p, &two.to, "fit", &e), &e, "ERR invalid chunk - Too big for current filter");

    bytes[DUMP_CHUNK_HEADER] = 1; /* a tag */
    dump_chunk_encode(&h, 1, &run, bytes);
    p.length = DUMP_CHUNK_HEADER + run.bytes;
    two_refused(dump_load(&p, &two.to, "fit", &e), &e, "ERR received bad data");
    bytes[DUMP_CHUNK_HEADER] = 0;

    struct dump_run elsewhere = run;
    elsewhere.first = 1;
    dump_chunk_encode(&h, 1, &elsewhere, bytes);
    two_refused(dump_load(&p, &two.to, "fit", &e), &e, "ERR invalid offset - no link found");
    h.id++;
    dump_chunk_encode(&h, 1, &run, bytes);
    two_refused(dump_load(&p, &two.to, "fit", &e), &e, "ERR invalid offset - no link found");
    assert_int_equal(two_count_keys(&two, "other:{fit.*"), 0);
    free(bytes);
    dump_free(&d);
}

static void test_loadchunk__refuses_a_header_that_there_is_no_memory_for(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    struct dump_header h;
    struct buffer bytes = {0};
    two_make(&two, "huge", 100, 1, &d);
    must(dump_header_decode(&h, d.piece[0].data, d.piece[0].length, &e), e);
    /* Each layer alone would fit. */
    h.layer_count = 3;
    h.chunks = 0;
    for (unsigned i = 0; i < h.layer_count; i++) {
        h.layers[i] = h.layers[0];
        h.layers[i].geometry = (struct geometry){26, (1 << 14) - 1, 512, 7};
        h.chunks += 7;
    }
    dump_header_encode(&h, &bytes);
    struct piece p = {.position = (int64_t)dump_position(&h, 1), .length = bytes.length, .data = bytes.data};
    assert_int_equal(dump_load(&p, &two.to, "huge", &e), ERR_REFUSED);
    assert_non_null(strstr(e.text, "too little memory"));
    assert_int_equal(two_count_keys(&two, "other:{huge}:load"), 0);
    buffer_fini(&bytes);
    dump_free(&d);
}

/* Earlier versions hashed keys, and laid out shards, differently. */
static void test_loadchunk__refuses_dumps_of_earlier_versions_by_name(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    struct dump_header h;
    two_make(&two, "form", 100, 1, &d);
    must(dump_header_decode(&h, d.piece[0].data, d.piece[0].length, &e), e);
    for (int version = 1; version < DUMP_VERSION; version++) {
        struct buffer bytes = {0};
        dump_header_encode(&h, &bytes);
        bytes.data[8] = (char)version;
        struct piece p = {
            .position = (int64_t)dump_position(&h, 1), .length = bytes.length, .data = bytes.data};
        two_refused(dump_load(&p, &two.to, "form", &e), &e,
                    "ERR received bad data: an earlier version made the dump (form 1 or 2): rebuild the "
                    "filter from its "
                    "table, or add its keys again");
        buffer_fini(&bytes);
    }
    assert_int_equal(two_count_keys(&two, "other:{form*"), 0);
    dump_free(&d);
}

/* --- loading in any order, again, and not at all --- */

static int64_t arrived(const char *filter)
{
    redisReply *r = client_command(&two.to, "TB.LOAD %s", filter);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    int64_t n = -1;
    for (size_t i = 0; i + 1 < r->elements; i += 2)
        if (strcmp(r->element[i]->str, "arrived") == 0)
            n = r->element[i + 1]->integer;
    freeReplyObject(r);
    return n;
}

static void test_load__takes_chunks_in_any_order_and_twice_and_is_invisible_until_whole(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    uint64_t present = 0;
    two_make_layers(&two, "order2", &d);
    must(dump_load(&d.piece[0], &two.to, "order2", &e), e);
    for (size_t i = d.count - 1; i >= 2; i--) {
        must(dump_load(&d.piece[i], &two.to, "order2", &e), e);
        must(dump_load(&d.piece[0], &two.to, "order2", &e), e);
        must(dump_load(&d.piece[i], &two.to, "order2", &e), e);
        assert_int_equal(arrived("order2"), d.count - i);
        two_says(&two.to, "BF.INFO order2", "ERR not found");
        must(client_mexists(&two.to, "order2", fixture_code, 0, 10, &present, NULL, &e), e);
        assert_int_equal(present, 0);
    }
    must(dump_load(&d.piece[1], &two.to, "order2", &e), e);
    two_all_present(&two.to, "order2", 0, 3000);
    assert_int_equal(two_count_keys(&two, "other:{order2.*}:*.n*"), 0); /* the load's shards are deleted */
    dump_free(&d);
}

static void test_load__says_which_chunks_are_missing(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    two_make_layers(&two, "missing", &d);
    must(dump_load(&d.piece[0], &two.to, "missing", &e), e);
    must(dump_load(&d.piece[2], &two.to, "missing", &e), e);
    redisReply *r = client_command(&two.to, "TB.LOAD missing");
    assert_int_equal(r->elements, 8);
    assert_string_equal(r->element[1]->str, "loading");
    assert_int_equal(r->element[3]->integer, d.count - 1);
    assert_int_equal(r->element[5]->integer, 1);
    const redisReply *ranges = r->element[7];
    assert_int_equal(ranges->elements, 4);
    assert_int_equal(ranges->element[0]->integer, d.piece[1].position);
    assert_int_equal(ranges->element[1]->integer, d.piece[1].position);
    assert_int_equal(ranges->element[2]->integer, d.piece[3].position);
    assert_int_equal(ranges->element[3]->integer, d.piece[d.count - 1].position);
    freeReplyObject(r);
    r = client_command(&two.to, "TB.LOAD nosuch");
    assert_int_equal(r->elements, 2);
    assert_string_equal(r->element[1]->str, "none");
    freeReplyObject(r);
    dump_free(&d);
}

static void test_load__asks_again_for_a_chunk_whose_shard_was_lost(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    char name[KEY_NAME_MAX], text[160];
    two_make_layers(&two, "again", &d);
    for (size_t i = 0; i + 1 < d.count; i++)
        must(dump_load(&d.piece[i], &two.to, "again", &e), e);
    two_find_key(&two.to_node, "other:{again.1.1.0}:*", name);
    two_tell(&two.to_node, "DEL %s", name);
    (void)snprintf(text, sizeof(text), "LOST 1 chunks were lost: send again those of %" PRId64,
                   d.piece[2].position);
    two_refused(dump_load(&d.piece[d.count - 1], &two.to, "again", &e), &e, text);
    two_says(&two.to, "BF.INFO again", "ERR not found");
    assert_int_equal(arrived("again"), d.count - 2);
    must(dump_load(&d.piece[2], &two.to, "again", &e), e);
    two_all_present(&two.to, "again", 0, 3000);
    dump_free(&d);
}

static void test_load__of_another_dump_starts_anew(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump first = {0}, second = {0};
    two_make_layers(&two, "one", &first);
    two_make(&two, "two", 1000, 100, &second);
    must(dump_load(&first.piece[0], &two.to, "anew", &e), e);
    must(dump_load(&first.piece[1], &two.to, "anew", &e), e);
    must(dump_load(&first.piece[2], &two.to, "anew", &e), e);
    assert_int_equal(two_count_keys(&two, "other:{anew.*"), 2);
    must(dump_load(&second.piece[0], &two.to, "anew", &e), e);
    assert_int_equal(two_count_keys(&two, "other:{anew.*"), 0);
    two_refused(dump_load(&first.piece[3], &two.to, "anew", &e), &e, "ERR invalid offset - no link found");
    must(dump_load(&second.piece[1], &two.to, "anew", &e), e);
    two_all_present(&two.to, "anew", 0, 100);
    dump_free(&first);
    dump_free(&second);
}

/* The filter is the same, and so are its keys, by count: what was stored of one dump is not used by another.
 */
static void test_load__of_another_dump_of_the_same_filter_starts_anew(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump first = {0}, second = {0};
    two_make_layers(&two, "same", &first);
    must(dump_rest(&second, &two.from, "same", &e), e);
    assert_int_equal(second.count, first.count);
    for (size_t i = 0; i + 1 < first.count; i++)
        must(dump_load(&first.piece[i], &two.to, "same", &e), e);
    must(dump_load(&first.piece[0], &two.to, "same", &e), e); /* the same load goes on */
    assert_int_equal(arrived("same"), first.count - 2);
    must(dump_load(&second.piece[0], &two.to, "same", &e), e);
    assert_int_equal(arrived("same"), 0);
    assert_int_equal(two_count_keys(&two, "other:{same.*"), 0);
    must(dump_load_all(&second, &two.to, "same", &e), e);
    two_all_present(&two.to, "same", 0, 3000);
    dump_free(&first);
    dump_free(&second);
}

/* A node was taken out of the configuration since a load of this dump was interrupted. */
static void test_load__on_a_node_that_is_configured_no_more_starts_anew(void **state)
{
    (void)state;
    static const char key[] = "other:{moved}:load";
    struct error e = {""};
    struct dump d = {0};
    char node[40], generation[400];
    int64_t ignored;
    two_make_layers(&two, "moved", &d);
    must(dump_load(&d.piece[0], &two.to, "moved", &e), e);
    must(dump_load(&d.piece[1], &two.to, "moved", &e), e);
    redisReply *r = client_command(&two.to_node, "HGET %s generation", key);
    assert_int_equal(r->type, REDIS_REPLY_STRING);
    (void)snprintf(node, sizeof(node), "127.0.0.1:%u", two.redis.port);
    const char *at = strstr(r->str, node);
    assert_non_null(at);
    (void)snprintf(generation, sizeof(generation), "%.*s127.0.0.1:1%s", (int)(at - r->str), r->str,
                   at + strlen(node));
    freeReplyObject(r);
    must(client_integer(&two.to_node, &ignored, &e, "HSET %s generation %s", key, generation), e);
    must(dump_load_all(&d, &two.to, "moved", &e), e);
    two_all_present(&two.to, "moved", 0, 3000);
    dump_free(&d);
}

/* Two clients restore two dumps of one filter at the same time: keys came between the dumps. No piece of one
 * is taken for one of the other, which would be OK by its id, number and shards. */
static void test_load__of_two_dumps_of_the_same_filter_at_once_does_not_mix(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump first = {0}, second = {0};
    two_make_layers(&two, "twice", &first);
    must(client_madd(&two.from, "twice", fixture_code, 3000, 100, &e), e);
    must(dump_rest(&second, &two.from, "twice", &e), e);
    assert_int_equal(second.count, first.count);
    must(dump_load(&first.piece[0], &two.to, "twice", &e), e);
    must(dump_load(&second.piece[0], &two.to, "twice", &e), e);
    for (size_t i = 1; i < first.count; i++) {
        two_refused(dump_load(&first.piece[i], &two.to, "twice", &e), &e,
                    "ERR invalid offset - no link found");
        must(dump_load(&second.piece[i], &two.to, "twice", &e), e);
    }
    two_all_present(&two.to, "twice", 0, 3100);
    dump_free(&first);
    dump_free(&second);
}

/* The filter that is made first wins, and its maker does not take the load's shards for leftovers. */
static void test_load__gives_way_to_a_filter_that_was_made_meanwhile(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    char name[KEY_NAME_MAX];
    two_make_layers(&two, "taken", &d);
    must(dump_load(&d.piece[0], &two.to, "taken", &e), e);
    must(dump_load(&d.piece[1], &two.to, "taken", &e), e);
    two_find_key(&two.to_node, "other:{taken.1.0.0}:*.n*", name);
    must(client_ok(&two.to, &e, "BF.RESERVE taken 0.01 100"), e);
    two_refused(dump_load(&d.piece[2], &two.to, "taken", &e), &e, "ERR item exists");
    two_refused(dump_load(&d.piece[0], &two.to, "taken", &e), &e, "ERR item exists");
    redisReply *r = client_command(&two.to_node, "TYPE %s", name);
    assert_string_equal(r->str, "string");
    freeReplyObject(r);
    uint64_t present = 0;
    must(client_mexists(&two.to, "taken", fixture_code, 0, 100, &present, NULL, &e), e);
    assert_int_equal(present, 0);
    dump_free(&d);
}

/* An abandoned load expires. */
static void test_load__leaves_nothing_that_does_not_expire(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    char name[KEY_NAME_MAX];
    int64_t ttl = 0;
    two_make_layers(&two, "expiring", &d);
    must(dump_load(&d.piece[0], &two.to, "expiring", &e), e);
    must(dump_load(&d.piece[1], &two.to, "expiring", &e), e);
    two_find_key(&two.to_node, "other:{expiring.*", name);
    must(client_integer(&two.to_node, &ttl, &e, "TTL %s", name), e);
    assert_in_range(ttl, 86000, 86400);
    must(client_integer(&two.to_node, &ttl, &e, "TTL other:{expiring}:load"), e);
    assert_in_range(ttl, 86000, 86400);
    dump_free(&d);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_loadchunk__refuses_in_the_order_of_the_contract),
        TEST(test_loadchunk__ends_with_del),
        TEST(test_loadchunk__that_cannot_be_read_ends_with_del),
        TEST(test_loadchunk__believes_no_chunk_that_does_not_fit_the_header),
        TEST(test_loadchunk__refuses_a_header_that_there_is_no_memory_for),
        TEST(test_loadchunk__refuses_dumps_of_earlier_versions_by_name),
        TEST(test_load__takes_chunks_in_any_order_and_twice_and_is_invisible_until_whole),
        TEST(test_load__says_which_chunks_are_missing),
        TEST(test_load__asks_again_for_a_chunk_whose_shard_was_lost),
        TEST(test_load__of_another_dump_starts_anew),
        TEST(test_load__of_another_dump_of_the_same_filter_starts_anew),
        TEST(test_load__on_a_node_that_is_configured_no_more_starts_anew),
        TEST(test_load__of_two_dumps_of_the_same_filter_at_once_does_not_mix),
        TEST(test_load__gives_way_to_a_filter_that_was_made_meanwhile),
        TEST(test_load__leaves_nothing_that_does_not_expire),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
