/* SPDX-License-Identifier: MIT */
/* Lanes on a real Redis: what each tail read proves, and which processes may not write. */
#include "tests/integration/lanes.h"
#include "tests/integration/lane_append.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "tests/lib/temp_redis.h"

enum { REPLY_MS = 5000, SYNC_CLIENT_MS = 1000 };

struct world {
    struct temp_redis redis;
    struct client client;
    struct nodes nodes;
    struct sync_client *link;
    struct names names;
    struct lane lane;
    struct log_position at, anchor;
    struct lanes_met met;
    uint64_t sequence, number;
};

static struct world w;

static int start(void **state)
{
    struct error e = {""};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_redis_start(&w.redis, NULL, &e), e);
    must(client_open(&w.client, w.redis.port, REPLY_MS, &e), e);
    must(nodes_parse(&w.nodes, w.redis.url, &e), e);
    must(names_init(&w.names, "tb", "f", 1, &e), e);
    w.link = sync_client_new(&w.nodes, SYNC_CLIENT_MS, NULL);
    assert_non_null(w.link);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    sync_client_free(w.link);
    client_close(&w.client);
    temp_redis_fini(&w.redis);
    return 0;
}

/* Each test has a lane of its own. */
static int fresh_lane(void **state)
{
    struct error e = {""};
    (void)state;
    memset(&w.met, 0, sizeof(w.met));
    w.lane = (struct lane){.where = NODE_HOME};
    lane_key(&w.lane.key, &w.names, 0, ++w.number);
    must(lane_make(w.link, &w.lane, lanes_writer, ++w.sequence, &w.anchor, &e), e);
    w.at = w.anchor;
    return 0;
}

/* --- helpers --- */

/* Read once; the state must be @wanted. */
static void reads_as(enum tail_state wanted)
{
    struct error e = {""};
    enum tail_state got = TAIL_EMPTY;
    must(lane_read(w.link, &w.lane, &w.at, lanes_apply, &w.met, &got, &e), e);
    assert_string_equal(tail_state_name(got), tail_state_name(wanted));
}

static enum err append_by(struct sync_client *l, unsigned keys, enum tail_state *state, struct error *e)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    size_t length = lanes_entry(bytes, ++w.sequence, keys);
    return lane_append(l, &w.lane, &w.at, bytes, length, lanes_apply, &w.met, state, e);
}

static void appends_as(enum tail_state wanted)
{
    struct error e = {""};
    enum tail_state got = TAIL_EMPTY;
    must(append_by(w.link, 2, &got, &e), e);
    assert_string_equal(tail_state_name(got), tail_state_name(wanted));
}

/* Append entries that this reader has not applied. */
static void add_unseen(unsigned count)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    for (unsigned i = 0; i < count; i++) {
        size_t length = lanes_entry(bytes, ++w.sequence, 1);
        redisReply *r =
            client_command(&w.client, "XADD %b * e %b", w.lane.key.text, w.lane.key.length, bytes, length);
        assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
        freeReplyObject(r);
    }
}

static void names_the_lane(const struct error *e)
{
    char key[KEY_NAME_MAX + 1];
    (void)snprintf(key, sizeof(key), "%.*s", (int)w.lane.key.length, w.lane.key.text);
    if (strstr(e->text, key) == NULL)
        fail_msg("the text does not name %s: %s", key, e->text);
}

/* --- reading --- */

static void test_lane_read__tells_complete_from_more(void **state)
{
    (void)state;
    reads_as(TAIL_COMPLETE);
    assert_int_equal(w.met.count, 0);
    add_unseen(LANE_RANGE_COUNT - 2);
    uint64_t first = w.sequence - (LANE_RANGE_COUNT - 3);
    reads_as(TAIL_COMPLETE);
    assert_int_equal(w.met.count, LANE_RANGE_COUNT - 2);
    add_unseen(LANE_RANGE_COUNT - 1); /* together with the anchor a full reply */
    reads_as(TAIL_MORE);
    reads_as(TAIL_COMPLETE);
    assert_int_equal(w.met.count, 2 * LANE_RANGE_COUNT - 3);
    for (unsigned i = 0; i < w.met.count; i++)
        assert_true(w.met.sequence[i] == first + i); /* in the order of the log, each once */
}

static void test_lane_read__meets_a_gap_where_the_lane_was_trimmed_past_it(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    (void)state;
    struct log_position old = w.at;
    add_unseen(300);
    reads_as(TAIL_COMPLETE);
    struct log_mark mark = log_mark_of(&w.at);
    must(lane_trim(w.link, &w.lane, &mark, &trimmed, &e), e);
    assert_true(trimmed.met && trimmed.removed >= 100 && trimmed.removed <= 300);
    unsigned before = w.met.count;
    reads_as(TAIL_COMPLETE); /* the entry to which the lane was trimmed still exists */
    w.at = old;
    reads_as(TAIL_GAP);
    assert_int_equal(w.met.count, before);
    assert_true(log_position_is(&w.at, old.id, old.bytes, old.length));
}

/* Too many entries for one script. Whole nodes of the stream are removed, so that some entries stay. */
static void test_lane_trim__removes_all_there_is_and_tells_the_bytes(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    char fields[64];
    (void)state;
    must(lane_trim(w.link, &w.lane, NULL, &trimmed, &e), e);
    assert_true(trimmed.met && trimmed.removed == 0 && trimmed.bytes > 0 && trimmed.bytes < 10000);
    (void)snprintf(fields, sizeof(fields), "%d", 25000);
    redisReply *r =
        client_command(&w.client, "EVAL %s 1 %b %s %b",
                       "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'e', ARGV[2]) end return 1",
                       w.lane.key.text, w.lane.key.length, fields, w.anchor.bytes, (size_t)w.anchor.length);
    assert_int_equal(r->type, REDIS_REPLY_INTEGER);
    freeReplyObject(r);
    reads_as(TAIL_MORE);
    for (enum tail_state got = TAIL_MORE; got == TAIL_MORE;) {
        w.met.count = 0;
        must(lane_read(w.link, &w.lane, &w.at, lanes_apply, &w.met, &got, &e), e);
    }
    must(lane_trim(w.link, &w.lane, NULL, &trimmed, &e), e);
    assert_true(trimmed.bytes > 25000 * 28);
    struct log_mark mark = log_mark_of(&w.at);
    must(lane_trim(w.link, &w.lane, &mark, &trimmed, &e), e);
    assert_true(trimmed.met && trimmed.removed > 24800);
    assert_true(trimmed.bytes > 0 && trimmed.bytes < 25000);
    reads_as(TAIL_COMPLETE);
}

/* If the id names another entry, or none, entries before it may not be in any shard. */
static void test_lane_trim__leaves_a_lane_that_has_not_the_entry(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    (void)state;
    add_unseen(300);
    reads_as(TAIL_COMPLETE);
    struct log_mark mark = log_mark_of(&w.at), other = mark, later = mark;
    other.head[LOG_ENTRY_BYTES_MIN - 1] ^= 1; /* a byte of the sequence */
    later.id.number++;
    int64_t length = lanes_number(&w.client, "XLEN", &w.lane);
    must(lane_trim(w.link, &w.lane, &other, &trimmed, &e), e);
    assert_true(!trimmed.met && trimmed.removed == 0 && trimmed.bytes > 0);
    must(lane_trim(w.link, &w.lane, &later, &trimmed, &e), e);
    assert_false(trimmed.met);
    struct lane other_era = w.lane;
    other_era.era ^=
        1; /* the node came into another era meanwhile, and the view took its first entry as a position */
    must(lane_trim(w.link, &other_era, &mark, &trimmed, &e), e);
    assert_true(!trimmed.met && trimmed.removed == 0);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), length);
    must(lane_trim(w.link, &w.lane, &mark, &trimmed, &e), e);
    assert_true(trimmed.met && trimmed.removed > 0);
    assert_int_equal(lanes_number(&w.client, "DEL", &w.lane), 1);
    must(lane_trim(w.link, &w.lane, &mark, &trimmed, &e), e);
    assert_true(!trimmed.met && trimmed.bytes == 0);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &w.lane), 0);
}

/* A lane that cannot be trimmed could never take an add again. */
static void test_lane_trim__goes_on_at_maxmemory(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    (void)state;
    add_unseen(300);
    reads_as(TAIL_COMPLETE);
    struct log_mark mark = log_mark_of(&w.at);
    freeReplyObject(client_command(&w.client, "CONFIG SET maxmemory 1"));
    redisReply *refused = client_command(&w.client, "SET x y");
    enum err code = lane_trim(w.link, &w.lane, &mark, &trimmed, &e);
    freeReplyObject(client_command(&w.client, "CONFIG SET maxmemory 0"));
    assert_int_equal(refused->type, REDIS_REPLY_ERROR);
    freeReplyObject(refused);
    must(code, e);
    assert_true(trimmed.met && trimmed.removed > 0);
    reads_as(TAIL_COMPLETE);
}

static void test_lane_read__meets_a_gap_where_the_lane_ends_before_it(void **state)
{
    struct error e = {""};
    (void)state;
    appends_as(TAIL_COMPLETE);
    char id[LOG_ID_TEXT_MAX];
    (void)log_id_format(w.at.id, id);
    redisReply *r = client_command(&w.client, "XDEL %b %s", w.lane.key.text, w.lane.key.length, id);
    freeReplyObject(r);
    reads_as(TAIL_GAP); /* no entry from there on, but the lane has its anchor */
    enum tail_state got = TAIL_EMPTY;
    must(append_by(w.link, 1, &got, &e), e);
    assert_int_equal(got, TAIL_GAP);
}

static void test_lane_read__tells_a_lane_that_is_lost(void **state)
{
    (void)state;
    appends_as(TAIL_COMPLETE);
    assert_int_equal(lanes_number(&w.client, "DEL", &w.lane), 1);
    reads_as(TAIL_LOST);
    appends_as(TAIL_LOST);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &w.lane), 0); /* the lane was not made again */

    (void)fresh_lane(NULL);
    struct error e = {""};
    must(client_ok(&w.client, &e, "FLUSHALL"), e);
    appends_as(TAIL_LOST);
    reads_as(TAIL_LOST);
    gives(ERR_LOST, lane_notice(w.link, &w.lane, lanes_writer, &e), e);
    names_the_lane(&e);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &w.lane), 0);
}

static void test_lane_read__applies_notices_too(void **state)
{
    struct error e = {""};
    (void)state;
    must(lane_notice(w.link, &w.lane, lanes_writer, &e), e);
    reads_as(TAIL_COMPLETE);
    assert_int_equal(w.met.count, 1);
    assert_int_equal(w.at.length, LOG_ENTRY_BYTES_MIN);
}

/* --- bad input --- */

/* Every operation on the key is refused with @code and changes nothing. */
static void refuses_all(enum err code, const char *length_command)
{
    struct error e = {""};
    enum tail_state got = TAIL_EMPTY;
    struct log_position before = w.at;
    struct lane_trimmed trimmed;
    struct log_mark mark = log_mark_of(&w.at);
    int64_t length = lanes_number(&w.client, length_command, &w.lane);
    gives(code, lane_read(w.link, &w.lane, &w.at, lanes_apply, &w.met, &got, &e), e);
    names_the_lane(&e);
    gives(code, append_by(w.link, 1, &got, &e), e);
    names_the_lane(&e);
    gives(code, lane_notice(w.link, &w.lane, lanes_writer, &e), e);
    names_the_lane(&e);
    gives(code, lane_trim(w.link, &w.lane, &mark, &trimmed, &e), e);
    struct log_position anchor;
    struct lane made = w.lane;
    gives(code, lane_make(w.link, &made, lanes_writer, 1, &anchor, &e), e);
    names_the_lane(&e);
    assert_int_equal(lanes_number(&w.client, length_command, &w.lane), length);
    assert_int_equal(w.met.count, 0);
    assert_true(log_position_is(&w.at, before.id, before.bytes, before.length));
}

static void test_a_list_in_the_place_of_a_lane__is_refused(void **state)
{
    (void)state;
    assert_int_equal(lanes_number(&w.client, "DEL", &w.lane), 1);
    freeReplyObject(client_command(&w.client, "RPUSH %b a b", w.lane.key.text, w.lane.key.length));
    refuses_all(ERR_WRONG_TYPE, "LLEN");
}

static void test_an_entry_that_is_none__is_refused(void **state)
{
    static const char *const wrong[] = {"XADD %b * e garbage", "XADD %b * f xx", "XADD %b * e a e b"};
    (void)state;
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct error e = {""};
        enum tail_state got = TAIL_EMPTY;
        (void)fresh_lane(NULL);
        struct log_position before = w.at;
        add_unseen(1); /* no entry of a reply with such an entry is applied */
        redisReply *r = client_command(&w.client, wrong[i], w.lane.key.text, w.lane.key.length);
        assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
        gives(ERR_PARSE, lane_read(w.link, &w.lane, &w.at, lanes_apply, &w.met, &got, &e), e);
        names_the_lane(&e);
        assert_non_null(strstr(e.text, r->str));
        freeReplyObject(r);
        assert_int_equal(w.met.count, 0);
        assert_true(log_position_is(&w.at, before.id, before.bytes, before.length));
    }
}

static void test_a_lane_whose_last_id_is_the_highest__is_refused(void **state)
{
    struct error e = {""};
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    enum tail_state got = TAIL_EMPTY;
    (void)state;
    size_t length = lanes_entry(bytes, ++w.sequence, 1);
    freeReplyObject(client_command(&w.client, "XADD %b 18446744073709551615-18446744073709551615 e %b",
                                   w.lane.key.text, w.lane.key.length, bytes, length));
    reads_as(TAIL_COMPLETE);
    assert_int_equal(w.met.count, 1);
    reads_as(TAIL_COMPLETE); /* from that position, too */
    gives(ERR_CONFLICT, append_by(w.link, 1, &got, &e), e);
    names_the_lane(&e);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 2);
}

/* --- closing --- */

static void test_lane_close__ends_it_for_good(void **state)
{
    struct error e = {""};
    (void)state;
    appends_as(TAIL_COMPLETE);
    must(lane_close(w.link, &w.lane, &e), e);
    appends_as(TAIL_LOST);
    reads_as(TAIL_LOST);
    must(lane_close(w.link, &w.lane, &e), e); /* closes the lane */
    struct lane closed = w.lane;
    memcpy(closed.key.text + closed.key.length, ".closed", 7);
    closed.key.length += 7;
    assert_int_equal(lanes_number(&w.client, "XLEN", &closed), 2);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &w.lane), 0);
}

/* --- eras --- */

static void test_the_era__changes_when_the_first_replica_comes(void **state)
{
    struct error e = {""};
    struct temp_redis replica = {0};
    (void)state;
    appends_as(TAIL_COMPLETE);
    must(temp_redis_start(&replica, NULL, &e), e);
    struct client c;
    must(client_open(&c, replica.port, REPLY_MS, &e), e);
    must(client_ok(&c, &e, "REPLICAOF 127.0.0.1 %u", w.redis.port), e);
    uint64_t deadline = clock_mono_us() + 10000000;
    while (lanes_era(&w.client) == w.lane.era && clock_mono_us() < deadline)
        clock_sleep_us(10000);
    unsigned before = w.met.count;
    add_unseen(1);
    reads_as(TAIL_ERA);
    appends_as(TAIL_ERA);
    assert_int_equal(w.met.count, before);
    w.lane.era = lanes_era(&w.client); /* as if the view accepted the era */
    reads_as(TAIL_COMPLETE);
    assert_int_equal(w.met.count, before + 2);
    client_close(&c);
    temp_redis_fini(&replica);
}

/* The server keeps its replication id and all data. */
static void test_a_reload__costs_nothing(void **state)
{
    struct error e = {""};
    (void)state;
    appends_as(TAIL_COMPLETE);
    must(client_ok(&w.client, &e, "DEBUG RELOAD"), e);
    reads_as(TAIL_COMPLETE);
    appends_as(TAIL_COMPLETE);
}

static void test_the_era__changes_when_the_server_starts_again(void **state)
{
    struct error e = {""};
    (void)state;
    appends_as(TAIL_COMPLETE);
    must(client_save(&w.client, &e), e);
    add_unseen(1); /* an acknowledged entry that is not in the file */
    temp_redis_kill(&w.redis);
    client_close(&w.client);
    must(temp_redis_restart(&w.redis, true, &e), e);
    must(client_open(&w.client, w.redis.port, REPLY_MS, &e), e);
    reads_as(TAIL_ERA);
    appends_as(TAIL_ERA);
}

/* A replica that lags is promoted, and a new entry gets the id of an entry that it lacks. */
static void test_a_fork__is_met_by_the_bytes_of_the_anchor(void **state)
{
    static const char id[] = "9999999999999-7";
    struct error e = {""};
    struct temp_redis replica = {0};
    struct client c;
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    (void)state;
    must(temp_redis_start(&replica, NULL, &e), e);
    must(client_open(&c, replica.port, REPLY_MS, &e), e);
    must(client_ok(&c, &e, "REPLICAOF 127.0.0.1 %u", w.redis.port), e);
    uint64_t deadline = clock_mono_us() + 10000000;
    while (lanes_number(&c, "EXISTS", &w.lane) == 0 && clock_mono_us() < deadline)
        clock_sleep_us(10000);
    w.lane.era = lanes_era(&w.client);
    must(client_ok(&c, &e, "REPLICAOF NO ONE"), e);
    size_t length = lanes_entry(bytes, ++w.sequence, 1);
    freeReplyObject(
        client_command(&w.client, "XADD %b %s e %b", w.lane.key.text, w.lane.key.length, id, bytes, length));
    reads_as(TAIL_COMPLETE);
    assert_int_equal(lanes_times(&w.met, w.sequence), 1);
    length = lanes_entry(bytes, ++w.sequence, 1);
    freeReplyObject(
        client_command(&c, "XADD %b %s e %b", w.lane.key.text, w.lane.key.length, id, bytes, length));
    freeReplyObject(client_command(&c, "XADD %b * e %b", w.lane.key.text, w.lane.key.length, bytes, length));

    struct nodes nodes;
    must(nodes_parse(&nodes, replica.url, &e), e);
    struct sync_client *direct = w.link;
    w.link = sync_client_new(&nodes, SYNC_CLIENT_MS, NULL);
    unsigned before = w.met.count;
    reads_as(TAIL_ERA); /* under the era of the former master */
    w.lane.era = lanes_era(&c);
    reads_as(TAIL_GAP); /* under the replica's own era: the id exists, with other bytes */
    assert_int_equal(w.met.count, before);
    sync_client_free(w.link);
    w.link = direct;
    client_close(&c);
    temp_redis_fini(&replica);
}

/* A connection outlives the demotion of its master: its replies count no more. Behind READONLY it is not used
 * again. */
static void test_a_master_that_became_a_replica__counts_no_more(void **state)
{
    struct error e = {""};
    enum tail_state got;
    (void)state;
    appends_as(TAIL_COMPLETE);
    must(client_ok(&w.client, &e, "REPLICAOF 127.0.0.1 1"), e); /* no server there: the node keeps its data */
    w.lane.era = lanes_era(&w.client);
    reads_as(TAIL_ERA);
    gives(ERR_UNREACHABLE, append_by(w.link, 2, &got, &e), e);
    must(client_ok(&w.client, &e, "REPLICAOF NO ONE"), e);
    w.lane.era = lanes_era(&w.client);
    reads_as(TAIL_COMPLETE);
}

#define LANE_TEST(name) cmocka_unit_test_setup(name, fresh_lane)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LANE_TEST(test_lane_read__tells_complete_from_more),
        LANE_TEST(test_lane_read__meets_a_gap_where_the_lane_was_trimmed_past_it),
        LANE_TEST(test_lane_trim__removes_all_there_is_and_tells_the_bytes),
        LANE_TEST(test_lane_trim__leaves_a_lane_that_has_not_the_entry),
        LANE_TEST(test_lane_trim__goes_on_at_maxmemory),
        LANE_TEST(test_lane_read__meets_a_gap_where_the_lane_ends_before_it),
        LANE_TEST(test_lane_read__tells_a_lane_that_is_lost),
        LANE_TEST(test_lane_read__applies_notices_too),
        LANE_TEST(test_a_list_in_the_place_of_a_lane__is_refused),
        LANE_TEST(test_an_entry_that_is_none__is_refused),
        LANE_TEST(test_a_lane_whose_last_id_is_the_highest__is_refused),
        LANE_TEST(test_lane_close__ends_it_for_good),
        LANE_TEST(test_the_era__changes_when_the_first_replica_comes),
        LANE_TEST(test_a_fork__is_met_by_the_bytes_of_the_anchor),
        LANE_TEST(test_a_master_that_became_a_replica__counts_no_more),
        LANE_TEST(test_a_reload__costs_nothing),
        LANE_TEST(test_the_era__changes_when_the_server_starts_again),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
