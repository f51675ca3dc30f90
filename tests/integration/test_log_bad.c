/* SPDX-License-Identifier: MIT */
/* Requests meet wrong data on a real Redis: lanes and shards of another type, of a later version, or damaged.
 * Each error names its key; nothing is written; no key is reported absent; when the data are right again, so
 * are the answers. */
#include "tests/integration/log_redis.h"
#include "tests/integration/solo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/request/log_filter_state.h"
#include "shard/resident/header.h"
#include "shard/members/lost.h"
#include "shard/view/view_load.h"

enum { SHARD_BYTES = 32768, KEYS = 400, ADDED = 20 };

static struct solo solo;
static char lane[KEY_NAME_MAX + 1], why[200];

static int set_up(void **state)
{
    struct key_name key;
    (void)state;
    log_redis_make(100000, 1, SHARD_BYTES);
    lane_key(&key, &on.names, 0, 1);
    (void)snprintf(lane, sizeof(lane), "%.*s", (int)key.length, key.text);
    return 0;
}

static bool has_inside; /* the key was added while the filter was degraded */

static void open_with(uint64_t memory, bool folds)
{
    has_inside = false;
    const struct control_options o = {.folds = folds,
                                      .log_max = 64 << 10,
                                      .lease_ms = 500,
                                      .fold_interval_us = 10000,
                                      .look_interval_us = 20000};
    solo_open(&solo, &on.nodes, &on.names, memory, &o);
}

static int tear_down(void **state)
{
    (void)state;
    solo_close(&solo);
    return 0;
}

static void add(unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(solo_ask(&solo, true, first + i), KEY_ADDED);
}

static int64_t number(const char *command, const char *key)
{
    struct error e = {""};
    int64_t n;
    must(client_integer(&on.client, &n, &e, command, key), e);
    return n;
}

/* Requests that need the lane get @code, with the lane's name. Keys in memory are present. The lane is not
 * changed. */
static void lane_is_refused(enum err code, const char *length, const char *text)
{
    assert_int_equal(solo_error(&solo, false, KEYS, why), code);
    assert_non_null(strstr(why, lane));
    assert_non_null(strstr(why, text));
    struct solo_request r;
    solo_begin(&solo, &r, false, KEYS);
    solo_run(&solo, &r.told, 0);
    assert_int_equal(r.answer, KEY_NO_ANSWER);
    int64_t before = number(length, lane);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(solo_error(&solo, true, KEYS + i, why), code);
        assert_non_null(strstr(why, lane));
    }
    assert_int_equal(number(length, lane), before);
    assert_int_equal(solo_ask(&solo, false, 1), KEY_PRESENT);
}

static void all_is_well(void)
{
    assert_int_equal(solo_ask(&solo, false, 2 * KEYS), KEY_ABSENT);
    assert_int_equal(solo_ask(&solo, true, 2 * KEYS), KEY_ADDED);
    for (unsigned i = 0; i < ADDED; i++)
        assert_int_equal(solo_ask(&solo, false, i), KEY_PRESENT);
}

/* --- lanes --- */

static void put_and_remove(const void *bytes, size_t length, enum err code, const char *text)
{
    open_with(UINT64_MAX, false);
    add(0, ADDED);
    redisReply *r = client_command(&on.client, "XADD %s * e %b", lane, bytes, length);
    assert_int_equal(r->type, REDIS_REPLY_STRING);
    lane_is_refused(code, "XLEN %s", text);
    assert_non_null(strstr(why, r->str)); /* the entry's id */
    freeReplyObject(client_command(&on.client, "XDEL %s %s", lane, r->str));
    freeReplyObject(r);
    all_is_well();
}

static void test_an_entry_that_is_none__is_named(void **state)
{
    (void)state;
    put_and_remove("what is this", 12, ERR_PARSE, "not an entry of this log");
}

static void test_an_entry_of_a_later_version__asks_for_an_upgrade(void **state)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    size_t length = lanes_entry(bytes, 1, 3);
    (void)state;
    bytes[1] = LOG_FORMAT + 1;
    put_and_remove(bytes, length, ERR_FORMAT, "upgrade");
}

static void test_an_entry_with_other_fields__is_named(void **state)
{
    (void)state;
    open_with(UINT64_MAX, false);
    add(0, ADDED);
    redisReply *r = client_command(&on.client, "XADD %s * a 1 b 2", lane);
    lane_is_refused(ERR_PARSE, "XLEN %s", "its fields are others");
    freeReplyObject(client_command(&on.client, "XDEL %s %s", lane, r->str));
    freeReplyObject(r);
    all_is_well();
}

static void test_a_lane_that_is_a_list__is_named_and_stays(void **state)
{
    struct error e = {""};
    (void)state;
    open_with(UINT64_MAX, false);
    add(0, ADDED);
    must(client_ok(&on.client, &e, "RENAME %s kept", lane), e);
    assert_int_equal(number("RPUSH %s theirs", lane), 1);
    lane_is_refused(ERR_WRONG_TYPE, "LLEN %s", "is not a stream");
    must(client_ok(&on.client, &e, "RENAME kept %s", lane), e);
    all_is_well();
}

/* E.g. after a jump of Redis' clock: the lane takes no entry any more, and another lane replaces it. */
static void test_a_lane_whose_last_id_is_the_highest__is_replaced(void **state)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct error e = {""};
    struct log_view *v = malloc(sizeof(*v));
    (void)state;
    open_with(UINT64_MAX, false);
    add(0, ADDED);
    size_t length = lanes_entry(bytes, 1, 3);
    freeReplyObject(client_command(&on.client, "XADD %s 18446744073709551615-18446744073709551615 e %b", lane,
                                   bytes, length));
    assert_int_equal(solo_ask(&solo, true, KEYS), KEY_UNSURE); /* "unsure" whether the key is new */
    assert_int_equal(solo_ask(&solo, false, KEYS), KEY_PRESENT);
    all_is_well();
    must(log_view_load(on.link, &on.names, v, &e), e);
    bool replaced = v->lane[0].number != 1, degraded = v->degraded;
    free(v);
    assert_true(replaced && !degraded);
    assert_int_equal(number("EXISTS %s", lane), 0);
}

/* --- shards --- */

/* Store a position as if something had been folded: else empty shards would not be read. */
static void folded_into(const struct log_view *v)
{
    struct buffer text = {0};
    buffer_printf(&text, "%" PRIu64 " ", v->slot[1].folded[0].lane_number);
    log_position_format(&v->slot[1].folded[0].position, &text);
    buffer_printf(&text, " 1");
    freeReplyObject(client_command(&on.client, "HSET tb:{f}:view folded1.0 %b", text.data, text.length));
    buffer_fini(&text);
}

/* The key of the first layer's shard with "<number>"; and a number in another shard. */
static void shard_of(uint64_t of, char out[KEY_NAME_MAX + 1], uint64_t *elsewhere)
{
    struct error e = {""};
    struct log_view *v = malloc(sizeof(*v));
    struct key_place place;
    struct key_name key;
    char text[24];
    must(log_view_load(on.link, &on.names, v, &e), e);
    const struct generation *g = &v->slot[1].shape;
    uint32_t shard = 0;
    for (uint64_t n = of;; n++) {
        int length = snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
        struct key_hash h = hash_mix(hash_key(v->seed, text, (size_t)length), g->seed);
        hash_place(&g->layers[0].geometry, h, &place);
        if (n == of)
            shard = place.shard;
        else if (place.shard != shard) {
            *elsewhere = n;
            break;
        }
    }
    names_log_shard(&on.names, (struct shard_id){1, 0, shard}, &key);
    folded_into(v);
    (void)snprintf(out, KEY_NAME_MAX + 1, "%.*s", (int)key.length, key.text);
    free(v);
}

/* Overwrite @length bytes of the shard at @at; @was gets the bytes before. */
static void overwrite(const char *shard, unsigned at, const void *bytes, size_t length, uint8_t *was)
{
    redisReply *r = client_command(&on.client, "GETRANGE %s %u %u", shard, at, at + (unsigned)length - 1);
    assert_int_equal(r->len, length);
    memcpy(was, r->str, length);
    freeReplyObject(r);
    freeReplyObject(client_command(&on.client, "SETRANGE %s %u %b", shard, at, bytes, length));
}

/* Ignore the token of a folder, which takes over before it reads the blocks after the header. */
static void blank_writer(redisReply *r)
{
    memset(r->str + HEADER_WRITER_AT, 0, HEADER_WRITER_BYTES);
    memset(r->str + HEADER_BYTES - 8, 0, 8); /* the header's checksum */
}

/* A lost shard may have had keys, so the filter is degraded from then on. */
static void is_not_present(uint64_t number)
{
    enum key_answer answer = solo_ask(&solo, false, number);
    assert_true(answer == KEY_ABSENT || answer == KEY_MAYBE);
}

static unsigned degradations(void)
{
    (void)pthread_rwlock_rdlock(&solo.filter->lock);
    unsigned count = solo.filter->degradations;
    (void)pthread_rwlock_unlock(&solo.filter->lock);
    return count;
}

/* The key is new, and must be reported so unless the filter may have lost it. */
static void is_added(uint64_t number)
{
    unsigned before = degradations();
    enum key_answer answer = solo_ask(&solo, true, number);
    if (before > 0 || degradations() == before)
        assert_int_equal(answer, before > 0 ? KEY_UNSURE : KEY_ADDED);
    else /* the degradation began meanwhile */
        assert_true(answer == KEY_ADDED || answer == KEY_UNSURE);
}

/* The key is in the shard, so the request fails. Once the filter is degraded, the answer is unknown. */
static void is_in_doubt(bool adds, enum err code, const char *shard, uint64_t number, const char *text)
{
    enum err got = solo_error(&solo, adds, number, why);
    if (got == ERR_OK && degradations() > 0) {
        assert_int_equal(solo_ask(&solo, adds, number), adds ? KEY_UNSURE : KEY_MAYBE);
        has_inside |= adds;
        return;
    }
    gives(code, got, (struct error){""});
    if (strstr(why, shard) == NULL || strstr(why, text) == NULL)
        fail_msg("%s does not name %s, or %s", why, shard, text);
}

/* The shard does not match the view. Its keys get errors, all others get answers, and nothing is written to
 * it, even when it should be folded. The error contains @text. */
static void shard_is_refused(enum err code, const char *shard, uint64_t inside, uint64_t outside,
                             const char *text)
{
    const bool never = false;
    struct log_status s;
    redisReply *before = client_command(&on.client, "GETRANGE %s 0 -1", shard);
    is_in_doubt(false, code, shard, inside, text);
    is_in_doubt(true, code, shard, inside, text);
    is_not_present(outside);
    is_added(outside);
    assert_int_equal(solo_ask(&solo, false, outside), KEY_PRESENT);
    solo_run(&solo, &never, 300);
    control_status(solo.control, &s);
    assert_true(s.code != ERR_OK);
    assert_non_null(strstr(s.error, shard));
    redisReply *after = client_command(&on.client, "GETRANGE %s 0 -1", shard);
    assert_int_equal(after->len, before->len);
    if (before->len == HEADER_BYTES) {
        blank_writer(before);
        blank_writer(after);
    }
    assert_memory_equal(after->str, before->str, before->len);
    freeReplyObject(before);
    freeReplyObject(after);
}

static void is_answered_again(uint64_t inside)
{
    if (!has_inside) {
        is_not_present(inside);
        is_added(inside);
    }
    assert_int_equal(solo_ask(&solo, false, inside), KEY_PRESENT);
}

static void overwritten_is_refused(enum err code, unsigned at, const void *bytes, size_t length,
                                   const char *text)
{
    char shard[KEY_NAME_MAX + 1];
    uint8_t was[HEADER_BYTES], unused[HEADER_BYTES];
    uint64_t outside;
    shard_of(7, shard, &outside);
    overwrite(shard, at, bytes, length, was);
    open_with(UINT64_MAX, true);
    shard_is_refused(code, shard, 7, outside, text);
    overwrite(shard, at, was, length, unused);
    is_answered_again(7);
}

static void test_a_shard_of_a_later_format__asks_for_an_upgrade(void **state)
{
    (void)state;
    overwritten_is_refused(ERR_FORMAT, 4, "\x7f\xff", 2, "upgrade");
}

static void test_a_header_that_is_damaged__is_named(void **state)
{
    (void)state;
    overwritten_is_refused(ERR_TIMEOUT, 16, "\x12\x34", 2, "damaged");
}

static void test_a_string_of_somebody_else__is_named(void **state)
{
    (void)state;
    overwritten_is_refused(ERR_TIMEOUT, 0, "theirs", 6, "does not begin with the header");
}

static void test_a_shard_that_is_cut__is_named(void **state)
{
    struct error e = {""};
    char shard[KEY_NAME_MAX + 1];
    uint64_t outside;
    (void)state;
    shard_of(7, shard, &outside);
    redisReply *r = client_command(&on.client, "GETRANGE %s 0 -1", shard);
    must(client_ok(&on.client, &e, "SET %s %b", shard, r->str, (size_t)HEADER_BYTES), e);
    open_with(UINT64_MAX, true);
    shard_is_refused(ERR_TIMEOUT, shard, 7, outside, "cut");
    must(client_ok(&on.client, &e, "SET %s %b", shard, r->str, r->len), e);
    freeReplyObject(r);
    is_answered_again(7);
}

static void test_a_shard_that_is_a_list__is_named_and_stays(void **state)
{
    struct error e = {""};
    char shard[KEY_NAME_MAX + 1];
    uint64_t outside;
    (void)state;
    shard_of(7, shard, &outside);
    must(client_ok(&on.client, &e, "RENAME %s kept", shard), e);
    assert_int_equal(number("RPUSH %s theirs", shard), 1);
    open_with(UINT64_MAX, true);
    assert_int_equal(solo_error(&solo, false, 7, why), ERR_WRONG_TYPE);
    assert_non_null(strstr(why, shard));
    assert_int_equal(solo_ask(&solo, false, outside), KEY_ABSENT);
    assert_int_equal(solo_ask(&solo, true, outside), KEY_ADDED);
    assert_int_equal(number("LLEN %s", shard), 1);
    must(client_ok(&on.client, &e, "RENAME kept %s", shard), e);
    is_answered_again(7);
}

/* Among many shards, a lost one does not keep the others out of memory. */
static void test_a_shard_that_is_missing__leaves_the_others_in_memory(void **state)
{
    struct log_status s;
    char shard[KEY_NAME_MAX + 1];
    uint64_t outside;
    (void)state;
    log_redis_make(1000000, 1, 8192);
    shard_of(7, shard, &outside);
    assert_int_equal(number("DEL %s", shard), 1);
    open_with(UINT64_MAX, true);
    assert_int_equal(solo_ask(&solo, false, outside), KEY_ABSENT);
    for (unsigned i = 0; i < 100; i++)
        solo_tend(&solo);
    control_status(solo.control, &s);
    assert_true(s.generation[1].memory.shards > 200);
    assert_int_equal(s.generation[1].memory.resident, s.generation[1].memory.shards - 1);
    assert_int_equal(s.code, ERR_LOST);
    assert_non_null(strstr(s.error, shard));
}

/* The check went on without the lost shard's blocks. Keys in that shard must not be absent when the filter is
 * healthy again. */
static void test_a_check_of_a_lost_shard__looks_again_when_the_loss_is_accepted(void **state)
{
    struct error e = {""};
    struct solo_request r;
    char shard[KEY_NAME_MAX + 1];
    uint64_t outside, made;
    (void)state;
    shard_of(7, shard, &outside);
    assert_int_equal(number("DEL %s", shard), 1);
    open_with(0, true);
    is_added(outside);
    assert_int_equal(solo_ask(&solo, false, 7), KEY_MAYBE);
    assert_int_equal(solo_ask(&solo, true, 7), KEY_UNSURE);
    solo_begin(&solo, &r, false, 7);
    while (r.q != NULL && !r.q->is_blind)
        (void)event_base_loop(solo.base, EVLOOP_ONCE);
    assert_false(r.told);
    must(lost_accept(on.link, &on.names, &made, &e), e);
    assert_int_equal(made, 1);
    (void)pthread_rwlock_wrlock(
        &solo.filter->lock); /* the control has read the view, before the lane's reply */
    solo.filter->degraded = false;
    (void)pthread_rwlock_unlock(&solo.filter->lock);
    solo_run(&solo, &r.told, 0);
    assert_int_equal(r.code, ERR_OK);
    assert_int_equal(r.answer, KEY_PRESENT);
}

/* The token has not been drawn yet, e.g. because the metadata node went back. Processes that do not fold may
 * not read the shard; the next folder draws a later token. */
static void test_a_header_with_a_token_of_the_future__is_taken_over_by_a_folder(void **state)
{
    struct error e = {""};
    char shard[KEY_NAME_MAX + 1];
    uint8_t header[BLOCK_BITS_MAX / 8], unused[BLOCK_BITS_MAX / 8];
    struct header h;
    uint64_t outside;
    (void)state;
    shard_of(7, shard, &outside);
    redisReply *r = client_command(&on.client, "GETRANGE %s 0 %u", shard, HEADER_BYTES - 1);
    must(header_decode(&h, (const uint8_t *)r->str, r->len, shard, &e), e);
    freeReplyObject(r);
    h.writer.number += 1000;
    header_encode(&h, header);
    overwrite(shard, 0, header, HEADER_BYTES, unused);
    open_with(UINT64_MAX, false);
    shard_is_refused(ERR_TIMEOUT, shard, 7, outside, "later than the view's");
    solo_close(&solo);
    open_with(UINT64_MAX, true);
    assert_int_equal(solo_ask(&solo, true, outside), KEY_OLD); /* appends an entry, to be folded */
    is_answered_again(7);
}

#define BAD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BAD_TEST(test_an_entry_that_is_none__is_named),
        BAD_TEST(test_an_entry_of_a_later_version__asks_for_an_upgrade),
        BAD_TEST(test_an_entry_with_other_fields__is_named),
        BAD_TEST(test_a_lane_that_is_a_list__is_named_and_stays),
        BAD_TEST(test_a_lane_whose_last_id_is_the_highest__is_replaced),
        BAD_TEST(test_a_shard_of_a_later_format__asks_for_an_upgrade),
        BAD_TEST(test_a_header_that_is_damaged__is_named),
        BAD_TEST(test_a_string_of_somebody_else__is_named),
        BAD_TEST(test_a_shard_that_is_cut__is_named),
        BAD_TEST(test_a_shard_that_is_a_list__is_named_and_stays),
        BAD_TEST(test_a_shard_that_is_missing__leaves_the_others_in_memory),
        BAD_TEST(test_a_check_of_a_lost_shard__looks_again_when_the_loss_is_accepted),
        BAD_TEST(test_a_header_with_a_token_of_the_future__is_taken_over_by_a_folder),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
