/* SPDX-License-Identifier: MIT */
/* Lanes in a Redis Cluster whose slots move: a tail read and the command that tells whether its reply counts
 * are executed by one server, and an acknowledged entry is in the lane. */
#include "tests/integration/lanes.h"
#include "tests/integration/lane_append.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/log/lane_reader.h"
#include "tests/lib/temp_cluster.h"

enum { SYNC_CLIENT_MS = 3000, PORT_MS = 8000, GUARD_MS = 30000, KEYS = 64 };

static struct temp_cluster cluster;
static struct nodes seeds, nodes;
static struct sync_client *l;
static struct names names;
static struct lane lane;
static struct log_position at, anchor;
static struct lanes_met met;
static uint64_t sequence;
static unsigned number, slot, from, to;

static int start(void **state)
{
    struct error e = {""};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_cluster_start(&cluster, 3, 3, 0, &e), e);
    must(cluster_parse_seeds(&seeds, cluster.seeds, &e), e);
    must(names_init(&names, "tb", "f", 1, &e), e);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    temp_cluster_fini(&cluster);
    return 0;
}

/* Each test has a lane of its own, in another slot, which it moves from @from to @to. */
static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    nodes = (struct nodes){.cluster = cluster_new(&seeds)};
    l = sync_client_new(&nodes, SYNC_CLIENT_MS, NULL);
    assert_non_null(l);
    memset(&met, 0, sizeof(met));
    lane = (struct lane){.where = 0};
    lane_key(&lane.key, &names, ++number, 1);
    lane.where = nodes_key(&nodes, lane.key.text, lane.key.length);
    slot = where_slot(lane.where);
    from = temp_cluster_owner(&cluster, 0, slot);
    to = (from + 1) % 3;
    must(lane_make(l, &lane, lanes_writer, ++sequence, &anchor, &e), e);
    assert_true(lane.era == lanes_era(&cluster.client[from]));
    at = anchor;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sync_client_free(l);
    cluster_free(nodes.cluster);
    return 0;
}

static void reads_as(enum tail_state wanted)
{
    struct error e = {""};
    enum tail_state got = TAIL_EMPTY;
    must(lane_read(l, &lane, &at, lanes_apply, &met, &got, &e), e);
    assert_string_equal(tail_state_name(got), tail_state_name(wanted));
}

static void appends_as(enum tail_state wanted)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct error e = {""};
    enum tail_state got = TAIL_EMPTY;
    size_t length = lanes_entry(bytes, ++sequence, 3);
    must(lane_append(l, &lane, &at, bytes, length, lanes_apply, &met, &got, &e), e);
    assert_string_equal(tail_state_name(got), tail_state_name(wanted));
    assert_int_equal(lanes_times(&met, sequence), wanted == TAIL_COMPLETE);
}

/* The length of the lane at node @i, read without the code under test. */
static int64_t length_at(unsigned i)
{
    return lanes_number(&cluster.client[i], "XLEN", &lane);
}

/* --- blocking --- */

static void test_a_lane_that_moved__counts_only_under_the_era_of_its_new_node(void **state)
{
    struct error e = {""};
    (void)state;
    appends_as(TAIL_COMPLETE);
    must(temp_cluster_move(&cluster, slot, 1, from, to, 0, &e), e);
    unsigned before = met.count;
    reads_as(TAIL_ERA); /* the first command after the move is answered with MOVED */
    reads_as(TAIL_ERA);
    assert_int_equal(met.count, before);
    lane.era = lanes_era(&cluster.client[to]);
    reads_as(TAIL_COMPLETE);
    appends_as(TAIL_COMPLETE);
    assert_int_equal(length_at(to), 3);
    must(lane_close(l, &lane, &e), e);
    appends_as(TAIL_LOST);
}

static void test_a_lane_on_its_way__is_read_and_appended_to_where_it_is(void **state)
{
    struct error e = {""};
    unsigned moved = 0;
    (void)state;
    appends_as(TAIL_COMPLETE);
    must(temp_cluster_open(&cluster, slot, from, to, &e), e);
    appends_as(TAIL_COMPLETE); /* the entry has not moved yet */
    must(temp_cluster_migrate(&cluster, slot, from, to, 100, &moved, &e), e);
    assert_int_equal(moved, 1);
    reads_as(TAIL_ERA); /* after ASK */
    lane.era = lanes_era(&cluster.client[to]);
    reads_as(TAIL_COMPLETE);
    appends_as(TAIL_COMPLETE);
    must(temp_cluster_close(&cluster, slot, from, to, &e), e);
    appends_as(TAIL_COMPLETE);
    assert_int_equal(length_at(to), 5);
}

/* --- asynchronous --- */

static unsigned char bits[KEYS * 1024];
static struct event_base *base;
static struct async_client *store;
static struct lane_port *port;
static struct lane_reader *reader;

static enum err apply(void *arg, const struct tail_record *record, uint8_t *fresh, struct error *e)
{
    (void)arg;
    (void)e;
    for (unsigned i = 0; i < record->entry.count; i++) {
        uint64_t key = log_entry_hash(&record->entry, i).low;
        if (fresh != NULL)
            fresh[i] = bits[key] == 0;
        bits[key] = 1;
    }
    return ERR_OK;
}

static enum tail_state stalled; /* the result of the last call; TAIL_COMPLETE: it did not stall */

static void on_stalled(void *arg, enum tail_state state)
{
    (void)arg;
    stalled = state;
    lane_reader_end(reader, ERR_CONFLICT, tail_state_name(state));
}

static const struct lane_reader_hooks hooks = {.apply = apply, .stalled = on_stalled};

static int open_reader(void **state)
{
    (void)set_up(state);
    memset(bits, 0, sizeof(bits));
    base = event_base_new();
    store = async_client_new(base, &nodes, SYNC_CLIENT_MS, NULL);
    port = lane_port_new(base, store, PORT_MS);
    reader = lane_reader_new(&lane, &anchor, (const uint8_t *)"of this process", &hooks, NULL);
    assert_true(port != NULL && reader != NULL);
    return 0;
}

static int close_reader(void **state)
{
    lane_port_free(port);
    async_client_free(store);
    event_base_free(base);
    assert_true(lane_reader_free(reader));
    return tear_down(state);
}

struct asked {
    struct lane_request request;
    struct key_hash keys[KEYS];
    uint8_t fresh[KEYS];
    bool told;
    struct lane_result result;
    char text[200];
};

static void on_done(void *arg, const struct lane_result *result)
{
    struct asked *a = arg;
    a->told = true;
    a->result = *result;
    (void)strncpy(a->text, result->text, sizeof(a->text) - 1);
}

/* Add KEYS keys from @first on, and wait. */
static enum tail_state add(struct asked *a, unsigned first)
{
    stalled = TAIL_COMPLETE;
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    *a = (struct asked){.told = false};
    for (unsigned i = 0; i < KEYS; i++)
        a->keys[i] = (struct key_hash){.low = first + i};
    lane_add(port, reader, &a->request, a->keys, KEYS, a->fresh, 0, on_done, a);
    while (!a->told && clock_mono_us() < until) {
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        clock_sleep_us(200);
    }
    if (!a->told || a->result.code != (stalled == TAIL_COMPLETE ? ERR_OK : ERR_CONFLICT))
        fail_msg("%s", a->text);
    return stalled;
}

static void accept_era(void)
{
    struct log_position now;
    lane_reader_position(reader, &now);
    lane.era = lanes_era(&cluster.client[to]);
    lane_reader_move(reader, &lane, &now);
}

static void test_a_shared_lane_that_moves__loses_nothing(void **state)
{
    struct error e = {""};
    struct asked a;
    unsigned moved = 0;
    (void)state;
    assert_int_equal(add(&a, 0), TAIL_COMPLETE);
    must(temp_cluster_open(&cluster, slot, from, to, &e), e);
    assert_int_equal(add(&a, KEYS), TAIL_COMPLETE);
    must(temp_cluster_migrate(&cluster, slot, from, to, 100, &moved, &e), e);
    assert_int_equal(moved, 1);
    assert_int_equal(add(&a, 2 * KEYS), TAIL_ERA); /* after ASK */
    assert_int_equal(bits[2 * KEYS], 0);
    accept_era();
    assert_int_equal(add(&a, 3 * KEYS), TAIL_COMPLETE);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(a.fresh[i], 1);
    must(temp_cluster_close(&cluster, slot, from, to, &e), e);
    assert_int_equal(add(&a, 4 * KEYS), TAIL_COMPLETE); /* after MOVED */
    for (unsigned i = 0; i < 5 * KEYS; i++)
        assert_int_equal(bits[i], 1); /* entries that were not acknowledged are in the lane, too */
    assert_int_equal(length_at(to), 6);
}

static void test_a_shared_lane_that_has_moved__counts_only_under_the_new_era(void **state)
{
    struct error e = {""};
    struct asked a;
    (void)state;
    assert_int_equal(add(&a, 0), TAIL_COMPLETE);
    must(temp_cluster_move(&cluster, slot, 1, from, to, 0, &e), e);
    assert_int_equal(add(&a, KEYS), TAIL_ERA);
    accept_era();
    assert_int_equal(add(&a, KEYS), TAIL_COMPLETE);
    assert_int_equal(bits[2 * KEYS - 1], 1);
}

#define LANE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define READER_TEST(name) cmocka_unit_test_setup_teardown(name, open_reader, close_reader)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LANE_TEST(test_a_lane_that_moved__counts_only_under_the_era_of_its_new_node),
        LANE_TEST(test_a_lane_on_its_way__is_read_and_appended_to_where_it_is),
        READER_TEST(test_a_shared_lane_that_moves__loses_nothing),
        READER_TEST(test_a_shared_lane_that_has_moved__counts_only_under_the_new_era),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
