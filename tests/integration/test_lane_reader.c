/* SPDX-License-Identifier: MIT */
/* A lane that the workers of a process share, on a real Redis: how tail reads and entries gather, what is
 * told when, and that four workers at once lose nothing. */
#include "tests/integration/lanes.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/log/lane_reader.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

enum { REPLY_MS = 5000, STORE_MS = 400, PORT_MS = 2000, GUARD_MS = 20000, KEYS = 4096 };

/* --- an applier: a bit for each key --- */

static atomic_uchar bits[KEYS];
static atomic_uint applied, at_once, told_wrong;

static bool refuses;

static enum err apply(void *arg, const struct tail_record *record, uint8_t *fresh, struct error *e)
{
    (void)arg;
    if (refuses)
        return error_set(e, ERR_NOMEM, "no memory to apply");
    if (atomic_fetch_add(&at_once, 1) != 0)
        atomic_fetch_add(&told_wrong, 1);
    for (unsigned i = 0; i < record->entry.count; i++) {
        uint64_t key = log_entry_hash(&record->entry, i).low % KEYS;
        bool was = atomic_load_explicit(&bits[key], memory_order_relaxed) != 0;
        atomic_store_explicit(&bits[key], 1, memory_order_relaxed);
        if (fresh != NULL)
            fresh[i] = !was;
    }
    atomic_fetch_add(&applied, 1);
    atomic_fetch_sub(&at_once, 1);
    return ERR_OK;
}

static void on_stalled(void *arg, enum tail_state state);
static const struct lane_reader_hooks hooks = {apply, on_stalled};

/* --- fixture --- */

struct world {
    struct temp_redis redis;
    struct client client;
    struct proxy *proxy;
    unsigned route;
    struct nodes nodes; /* by the proxy */
    struct nodes direct;
    struct link *link;
    struct names names;
    struct lane lane;
    struct log_position anchor;
    struct lane_reader *reader;
    struct event_base *base[2];
    struct store *store[2];
    struct lane_port *port[2];
    uint64_t number;
    bool waits; /* who stalls waits; else it is told */
    unsigned stalls;
};

static struct world w;

static void on_stalled(void *arg, enum tail_state state)
{
    (void)arg;
    w.stalls++;
    if (!w.waits)
        lane_reader_end(w.reader, ERR_CONFLICT, tail_state_name(state));
}

static int start(void **state)
{
    struct error e = {""};
    char url[64];
    uint16_t port;
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_redis_start(&w.redis, NULL, &e), e);
    must(client_open(&w.client, w.redis.port, REPLY_MS, &e), e);
    must(proxy_start(&w.proxy, &e), e);
    must(proxy_add(w.proxy, WIRE_REDIS, w.redis.port, &w.route, &port, &e), e);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", port);
    must(nodes_parse(&w.nodes, url, &e), e);
    must(nodes_parse(&w.direct, w.redis.url, &e), e);
    must(names_init(&w.names, "tb", "f", 1, &e), e);
    w.link = link_new(&w.direct, REPLY_MS, NULL);
    assert_non_null(w.link);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    link_free(w.link);
    proxy_stop(w.proxy);
    client_close(&w.client);
    temp_redis_fini(&w.redis);
    return 0;
}

static void open_port(unsigned i)
{
    w.base[i] = event_base_new();
    w.store[i] = store_new(w.base[i], &w.nodes, STORE_MS, NULL);
    w.port[i] = lane_port_new(w.base[i], w.store[i], PORT_MS);
    assert_non_null(w.port[i]);
}

static void close_port(unsigned i)
{
    if (w.port[i] == NULL)
        return;
    lane_port_free(w.port[i]);
    store_free(w.store[i]);
    event_base_free(w.base[i]);
    w.port[i] = NULL;
}

static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    memset(bits, 0, sizeof(bits));
    w.waits = refuses = false;
    w.stalls = 0;
    atomic_store(&applied, 0);
    atomic_store(&told_wrong, 0);
    w.lane = (struct lane){.where = NODE_HOME};
    lane_key(&w.lane.key, &w.names, 0, ++w.number);
    must(lane_make(w.link, &w.lane, lanes_writer, 1, &w.anchor, &e), e);
    w.reader = lane_reader_new(&w.lane, &w.anchor, (const uint8_t *)"of this process", &hooks, NULL);
    assert_non_null(w.reader);
    open_port(0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    proxy_lift(w.proxy);
    close_port(0);
    close_port(1);
    assert_true(lane_reader_free(w.reader));
    assert_int_equal(atomic_load(&told_wrong), 0);
    return 0;
}

/* --- requests --- */

struct asked {
    struct lane_request request;
    struct key_hash keys[KEYS];
    uint8_t fresh[KEYS];
    unsigned told;
    uint64_t took_us, began;
    struct lane_result result;
    char text[200];
};

static void on_done(void *arg, const struct lane_result *result)
{
    struct asked *a = arg;
    a->told++;
    a->took_us = clock_mono_us() - a->began;
    a->result = *result;
    (void)snprintf(a->text, sizeof(a->text), "%s", result->text);
}

static struct asked *ask_by(unsigned port)
{
    struct asked *a = calloc(1, sizeof(*a));
    assert_non_null(a);
    a->began = clock_mono_us();
    lane_ask(w.port[port], w.reader, &a->request, on_done, a);
    assert_int_equal(a->told, 0);
    return a;
}

static struct asked *add_by(unsigned port, uint64_t first, unsigned count)
{
    struct asked *a = calloc(1, sizeof(*a));
    assert_non_null(a);
    for (unsigned i = 0; i < count; i++)
        a->keys[i] = (struct key_hash){.high = 1, .low = first + i};
    a->began = clock_mono_us();
    lane_add(w.port[port], w.reader, &a->request, a->keys, count, a->fresh, on_done, a);
    return a;
}

static void turn_loops(void)
{
    for (unsigned i = 0; i < 2; i++)
        if (w.port[i] != NULL)
            (void)event_base_loop(w.base[i], EVLOOP_NONBLOCK);
    clock_sleep_us(500);
}

/* Until it is told; frees it and gives back what it was told. */
static struct lane_result end_of(struct asked *a)
{
    static char text[200];
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (a->told == 0) {
        if (clock_mono_us() > until)
            fail_msg("nobody was told");
        turn_loops();
    }
    struct lane_result result = a->result;
    assert_int_equal(a->told, 1);
    (void)snprintf(text, sizeof(text), "%s", a->text);
    result.text = text;
    free(a);
    return result;
}

static void ends_as(struct asked *a, enum err code)
{
    struct lane_result got = end_of(a);
    if (got.code != code)
        fail_msg("%s (%s)", error_name(got.code), got.text);
}

/* on_stalled() ended it. */
static void stalls_as(struct asked *a, enum tail_state state)
{
    struct lane_result got = end_of(a);
    if (got.code != ERR_CONFLICT || strcmp(got.text, tail_state_name(state)) != 0)
        fail_msg("%s (%s)", error_name(got.code), got.text);
}

static uint64_t calls_of(const char *command)
{
    char line[64];
    redisReply *r = client_command(&w.client, "INFO commandstats");
    (void)snprintf(line, sizeof(line), "cmdstat_%s:calls=", command);
    const char *at = strstr(r->str, line);
    uint64_t calls = at == NULL ? 0 : strtoull(at + strlen(line), NULL, 10);
    freeReplyObject(r);
    return calls;
}

static void reset_calls(void)
{
    struct error e = {""};
    must(client_ok(&w.client, &e, "CONFIG RESETSTAT"), e);
}

static void add_from_outside(uint64_t key)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    const struct key_hash hash = {.high = 2, .low = key};
    size_t length = log_entry_encode(bytes, lanes_writer, 100 + key, &hash, 1);
    redisReply *r =
        client_command(&w.client, "XADD %b * e %b", w.lane.key.text, w.lane.key.length, bytes, length);
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    freeReplyObject(r);
}

/* --- gathering --- */

static void test_requests_of_one_turn__share_one_write(void **state)
{
    enum { EACH = 20 };
    struct asked *a[3 * EACH];
    (void)state;
    ends_as(ask_by(0), ERR_OK); /* connected */
    reset_calls();
    for (unsigned i = 0; i < EACH; i++) {
        a[3 * i] = ask_by(0);
        a[3 * i + 1] = add_by(0, 10 * i, 10);
        a[3 * i + 2] = ask_by(0);
    }
    for (unsigned i = 0; i < 3 * EACH; i++)
        ends_as(a[i], ERR_OK);
    assert_int_equal(calls_of("xrange"), 1);
    assert_int_equal(calls_of("xadd"), 2); /* 200 keys */
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 3);
    for (unsigned i = 0; i < 10 * EACH; i++)
        assert_int_equal(bits[i], 1);
}

static void test_what_comes_while_a_read_is_under_way__shares_the_next(void **state)
{
    struct asked *a[40];
    (void)state;
    open_port(1);
    ends_as(ask_by(0), ERR_OK);
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.reply_delay_ms = 100});
    struct asked *first = ask_by(0);
    for (unsigned i = 0; i < 20; i++)
        turn_loops();
    reset_calls(); /* the first one is executed */
    add_from_outside(7);
    for (unsigned i = 0; i < 40; i++)
        a[i] = ask_by(i % 2);
    ends_as(first, ERR_OK);
    for (unsigned i = 0; i < 40; i++) {
        assert_true(a[i]->told == 0 || bits[7] == 1); /* not by the read that had begun before */
        ends_as(a[i], ERR_OK);
    }
    assert_int_equal(bits[7], 1);
    assert_int_equal(calls_of("xrange"), 1);
}

static void test_many_keys__go_as_full_entries_and_say_what_was_new(void **state)
{
    (void)state;
    ends_as(add_by(0, 5, 1), ERR_OK);
    struct asked *a = add_by(0, 0, 300), *b = add_by(0, 290, 20);
    while (a->told == 0 || b->told == 0)
        turn_loops();
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(a->fresh[i], i != 5);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(b->fresh[i], i >= 10);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 1 + 1 + 3); /* 320 keys in three */
    ends_as(a, ERR_OK);
    ends_as(b, ERR_OK);
}

static void test_more_keys_than_a_turn_has__go_in_several(void **state)
{
    (void)state;
    struct asked *a = add_by(0, 0, LANE_REQUEST_KEYS_MAX), *b = add_by(0, 0, LANE_REQUEST_KEYS_MAX);
    ends_as(a, ERR_OK);
    while (b->told == 0)
        turn_loops();
    for (unsigned i = 0; i < LANE_REQUEST_KEYS_MAX; i++)
        assert_int_equal(b->fresh[i], 0);
    ends_as(b, ERR_OK);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 1 + 2 * LANE_REQUEST_KEYS_MAX / LOG_KEYS_MAX);
}

static void test_a_tail_of_many_pages__is_read_to_its_end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3 * LANE_RANGE_COUNT; i++)
        add_from_outside(i);
    struct asked *a = add_by(0, 4000, 1);
    ends_as(a, ERR_OK);
    assert_int_equal(atomic_load(&applied), 3 * LANE_RANGE_COUNT + 1);
    struct log_position p;
    lane_reader_position(w.reader, &p);
    ends_as(ask_by(0), ERR_OK);
    assert_int_equal(atomic_load(&applied), 3 * LANE_RANGE_COUNT + 1); /* nothing twice */
}

/* --- what can go wrong --- */

static void test_a_lost_reply__has_the_entry_found_not_sent_again(void **state)
{
    (void)state;
    ends_as(ask_by(0), ERR_OK);
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.resets = 1});
    struct asked *a = add_by(0, 3, 2);
    while (a->told == 0)
        turn_loops();
    assert_true(a->fresh[0] == 1 && a->fresh[1] == 1);
    ends_as(a, ERR_OK);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 2);
}

static void test_bytes_that_are_executed_later__change_nothing(void **state)
{
    (void)state;
    ends_as(ask_by(0), ERR_OK);
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.request_delay_ms = 1500});
    struct asked *a = add_by(0, 3, 2);
    uint64_t until = clock_mono_us() + (STORE_MS + 300) * 1000ull;
    while (clock_mono_us() < until)
        turn_loops();
    proxy_lift(w.proxy); /* the store has given that connection up */
    while (a->told == 0)
        turn_loops();
    assert_true(a->fresh[0] == 1 && a->fresh[1] == 1);
    ends_as(a, ERR_OK);
    until = clock_mono_us() + GUARD_MS * 1000ull;
    while (lanes_number(&w.client, "XLEN", &w.lane) < 3 && clock_mono_us() < until)
        clock_sleep_us(10000);
    a = add_by(0, 3, 2);
    while (a->told == 0)
        turn_loops();
    assert_true(a->fresh[0] == 0 && a->fresh[1] == 0);
    ends_as(a, ERR_OK);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 4);
}

static void test_the_first_of_two_same_entries__decides(void **state)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    const struct key_hash hash = {.high = 1, .low = 77};
    (void)state;
    /* The reader's first one, as if it had been sent before. */
    size_t length = log_entry_encode(bytes, (const uint8_t *)"of this process", 1, &hash, 1);
    freeReplyObject(
        client_command(&w.client, "XADD %b * e %b", w.lane.key.text, w.lane.key.length, bytes, length));
    struct asked *a = add_by(0, 77, 1);
    while (a->told == 0)
        turn_loops();
    assert_int_equal(a->fresh[0], 1);
    ends_as(a, ERR_OK);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 3);
}

static void test_a_silent_server__costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    ends_as(ask_by(0), ERR_OK);
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.swallow = true});
    struct asked *a = ask_by(0), *b = add_by(0, 1, 1);
    while (a->told == 0 || b->told == 0)
        turn_loops();
    assert_true(a->took_us >= PORT_MS * 1000 && a->took_us < (PORT_MS + 1000) * 1000);
    assert_true(a->result.code == ERR_UNREACHABLE || a->result.code == ERR_TIMEOUT);
    assert_true(b->result.code == a->result.code && a->text[0] != '\0');
    (void)end_of(a);
    (void)end_of(b);
    proxy_lift(w.proxy);
    ends_as(ask_by(0), ERR_OK);
}

static void test_a_lane_that_is_lost__is_told_to_all_and_not_made_again(void **state)
{
    (void)state;
    assert_int_equal(lanes_number(&w.client, "DEL", &w.lane), 1);
    struct asked *a = ask_by(0), *b = add_by(0, 1, 200);
    stalls_as(a, TAIL_LOST);
    stalls_as(b, TAIL_LOST);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &w.lane), 0);
    assert_int_equal(atomic_load(&applied), 0);
}

static void test_a_gap__is_told_until_the_reader_is_moved(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    struct log_position at = w.anchor;
    struct lanes_met met = {0};
    enum tail_state got = TAIL_EMPTY;
    (void)state;
    for (unsigned i = 0; i < 300; i++)
        add_from_outside(i);
    must(lane_read(w.link, &w.lane, &at, lanes_apply, &met, &got, &e), e);
    struct log_mark mark = log_mark_of(&at);
    must(lane_trim(w.link, &w.lane, &mark, &trimmed, &e), e);
    stalls_as(ask_by(0), TAIL_GAP);
    stalls_as(add_by(0, 1, 1), TAIL_GAP);
    assert_int_equal(atomic_load(&applied), 0);
    lane_reader_move(w.reader, &w.lane, &at); /* its shards were loaded again */
    ends_as(ask_by(0), ERR_OK);
    assert_int_equal(atomic_load(&applied), 0); /* the second add came when it was over, and sent nothing */
}

static void test_another_era__is_told_until_it_is_accepted(void **state)
{
    (void)state;
    struct lane lane = w.lane;
    lane.era ^= 1;
    lane_reader_move(w.reader, &lane, &w.anchor);
    struct asked *a = add_by(0, 9, 1), *b = ask_by(0);
    stalls_as(a, TAIL_ERA);
    stalls_as(b, TAIL_ERA);
    assert_int_equal(atomic_load(&applied), 0);
    assert_int_equal(bits[9], 0);
    lane_reader_move(w.reader, &w.lane, &w.anchor);
    ends_as(ask_by(0), ERR_OK);
    assert_int_equal(bits[9], 1);
}

/* The same lane in another era: an entry that was sent is met there, or sent again. */
static void waits_and_is_met(bool is_missing)
{
    struct lane lane = w.lane;
    w.waits = true;
    lane.era ^= 1;
    lane_reader_move(w.reader, &lane, &w.anchor);
    struct asked *a = add_by(0, 9, 2);
    while (w.stalls == 0)
        turn_loops();
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 2);
    if (is_missing) { /* it was lost with the era */
        freeReplyObject(client_command(&w.client, "XTRIM %b MAXLEN 0", w.lane.key.text, w.lane.key.length));
        freeReplyObject(client_command(&w.client, "XADD %b %llu-%llu e %b", w.lane.key.text,
                                       w.lane.key.length, w.anchor.id.ms + 1000000, w.anchor.id.number,
                                       w.anchor.bytes, (size_t)w.anchor.length));
        w.anchor.id.ms += 1000000;
    }
    struct asked *late = ask_by(0);
    for (unsigned i = 0; i < 20; i++)
        turn_loops();
    assert_int_equal(a->told + late->told, 0);
    lane_reader_move(w.reader, &w.lane, &w.anchor);
    while (a->told == 0)
        turn_loops();
    assert_int_equal(a->fresh[0], LANE_FRESH_UNKNOWN);
    assert_int_equal(a->fresh[1], LANE_FRESH_UNKNOWN);
    ends_as(a, ERR_OK);
    ends_as(late, ERR_OK);
    assert_int_equal(w.stalls, 1);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 2);
    assert_int_equal(atomic_load(&applied), 1);
}

static void test_who_waits_for_a_new_era__has_its_entry_met_once(void **state)
{
    (void)state;
    waits_and_is_met(false);
}

static void test_who_waits_for_a_new_era__has_its_entry_sent_again(void **state)
{
    (void)state;
    waits_and_is_met(true);
}

/* The first of its two entries is the last one of a page, and was applied before the reader is moved. */
static void moves_in_the_middle(bool goes_back, unsigned fresh)
{
    enum { BEFORE = LANE_RANGE_COUNT - 2 };
    for (unsigned i = 0; i < BEFORE; i++)
        add_from_outside(1000 + i);
    struct asked *a = add_by(0, 200, 200);
    while (atomic_load(&applied) == 0)
        (void)event_base_loop(w.base[0], EVLOOP_ONCE);
    lane_reader_stop(w.reader);
    assert_int_equal(atomic_load(&applied), BEFORE + 1);
    for (unsigned i = 0; i < 20; i++)
        turn_loops();
    assert_int_equal(atomic_load(&applied), BEFORE + 1);
    assert_int_equal(a->told, 0);
    if (goes_back)
        lane_reader_go_back(w.reader, &w.lane, &w.anchor);
    else
        lane_reader_move(w.reader, &w.lane, &w.anchor);
    while (a->told == 0)
        turn_loops();
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(a->fresh[i], fresh);
    ends_as(a, ERR_OK);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 1 + BEFORE + 2);
}

static void test_what_was_met_before_a_move__is_met_again(void **state)
{
    (void)state;
    moves_in_the_middle(false, LANE_FRESH_UNKNOWN);
}

static void test_who_goes_back__knows_what_was_new(void **state)
{
    (void)state;
    moves_in_the_middle(true, 1);
}

static void test_what_cannot_be_applied__is_told_and_applied_later(void **state)
{
    (void)state;
    refuses = true;
    struct lane_result got = end_of(add_by(0, 7, 1));
    assert_int_equal(got.code, ERR_NOMEM);
    assert_string_equal(got.text, "no memory to apply");
    assert_int_equal(bits[7], 0);
    refuses = false;
    ends_as(ask_by(0), ERR_OK);
    assert_int_equal(bits[7], 1);
}

/* Each acknowledged entry of this process is kept; entries of others are not. */
static void test_what_is_acknowledged__is_kept_until_it_is_folded(void **state)
{
    struct log_position at;
    (void)state;
    struct own *own = own_new(1 << 20);
    own_enter(own, &w.lane);
    lane_reader_keep(w.reader, own);
    add_from_outside(7);
    ends_as(add_by(0, 0, 3 * LOG_KEYS_MAX + 1), ERR_OK);
    ends_as(ask_by(0), ERR_OK);
    assert_int_equal(own_count(own), 4);
    lane_reader_position(w.reader, &at);
    own_folded(own, &w.lane, (struct log_id){1, 1});
    assert_int_equal(own_count(own), 4);
    own_folded(own, &w.lane, at.id);
    assert_int_equal(own_count(own), 0);
    lane_reader_keep(w.reader, NULL);
    own_free(own);
}

static void test_more_than_may_be_kept__is_not_sent(void **state)
{
    (void)state;
    struct own *own = own_new(4096);
    own_enter(own, &w.lane);
    lane_reader_keep(w.reader, own);
    ends_as(add_by(0, 0, LOG_KEYS_MAX), ERR_OK);
    struct asked *a = add_by(0, LOG_KEYS_MAX, LOG_KEYS_MAX), *b = ask_by(0);
    struct lane_result got = end_of(a);
    assert_int_equal(got.code, ERR_NOMEM);
    assert_non_null(strstr(got.text, "not in the shards yet"));
    ends_as(b, ERR_OK); /* checks go on */
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 2);
    struct log_position at;
    lane_reader_position(w.reader, &at);
    own_folded(own, &w.lane, at.id);
    ends_as(add_by(0, LOG_KEYS_MAX, LOG_KEYS_MAX), ERR_OK);
    lane_reader_keep(w.reader, NULL);
    own_free(own);
}

/* A roll call has begun in this process: what is met under the era before it is not acknowledged. */
static void test_an_era_that_the_process_has_left__stalls(void **state)
{
    (void)state;
    struct own *own = own_new(1 << 20);
    struct lane next = w.lane;
    next.era ^= 1;
    own_enter(own, &next);
    lane_reader_keep(w.reader, own);
    w.waits = true;
    ends_as(ask_by(0), ERR_OK);
    struct asked *a = add_by(0, 9, 1);
    while (w.stalls == 0)
        turn_loops();
    assert_int_equal(own_count(own), 0);
    assert_int_equal(a->told, 0);
    own_enter(own, &w.lane);
    lane_reader_move(w.reader, &w.lane, &w.anchor);
    ends_as(a, ERR_OK);
    assert_int_equal(own_count(own), 1);
    assert_int_equal(lanes_number(&w.client, "XLEN", &w.lane), 2); /* it was met, not sent again */
    lane_reader_keep(w.reader, NULL);
    own_free(own);
}

static void test_a_list__is_refused_by_name(void **state)
{
    char key[KEY_NAME_MAX + 1];
    (void)state;
    (void)snprintf(key, sizeof(key), "%.*s", (int)w.lane.key.length, w.lane.key.text);
    assert_int_equal(lanes_number(&w.client, "DEL", &w.lane), 1);
    freeReplyObject(client_command(&w.client, "RPUSH %s a", key));
    struct lane_result got = end_of(add_by(0, 1, 1));
    assert_int_equal(got.code, ERR_WRONG_TYPE);
    assert_non_null(strstr(got.text, key));
    ends_as(ask_by(0), ERR_WRONG_TYPE);
    assert_int_equal(lanes_number(&w.client, "LLEN", &w.lane), 1);
}

static void test_a_server_without_memory__refuses_adds_and_serves_reads(void **state)
{
    struct error e = {""};
    (void)state;
    ends_as(ask_by(0), ERR_OK);
    must(client_ok(&w.client, &e, "CONFIG SET maxmemory 1"), e);
    struct asked *a = add_by(0, 1, 1), *b = ask_by(0);
    ends_as(a, ERR_NOMEM);
    ends_as(b, ERR_OK);
    must(client_ok(&w.client, &e, "CONFIG SET maxmemory 0"), e);
    ends_as(add_by(0, 1, 1), ERR_OK);
}

static void test_a_worker_that_goes__leaves_its_read_to_another(void **state)
{
    (void)state;
    open_port(1);
    ends_as(ask_by(0), ERR_OK);
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.reply_delay_ms = 200});
    struct asked *a = add_by(0, 1, 1), *b = add_by(1, 2, 1);
    for (unsigned i = 0; i < 20; i++)
        turn_loops(); /* the first port has it under way */
    close_port(0);
    ends_as(a, ERR_CANCELLED);
    while (b->told == 0)
        turn_loops();
    assert_int_equal(b->fresh[0], 1);
    ends_as(b, ERR_OK);
    assert_int_equal(bits[2], 1);
}

/* The control's thread reads a tail now and then, and runs its loop only until then. */
static void test_a_port_whose_loop_rests__leaves_the_next_read_to_another(void **state)
{
    (void)state;
    open_port(1);
    ends_as(ask_by(0), ERR_OK);
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.reply_delay_ms = 100});
    struct asked *a = ask_by(1);
    for (unsigned i = 0; i < 4; i++)
        turn_loops(); /* the second port has it under way */
    struct asked *b = ask_by(0);
    while (a->told == 0)
        (void)event_base_loop(w.base[1], EVLOOP_ONCE);
    ends_as(a, ERR_OK);
    while (b->told == 0)
        (void)event_base_loop(w.base[0], EVLOOP_ONCE);
    ends_as(b, ERR_OK);
}

static void test_what_is_cancelled__is_not_told(void **state)
{
    (void)state;
    struct asked *a = add_by(0, 1, 1), *b = ask_by(0);
    lane_cancel(&a->request);
    ends_as(b, ERR_OK);
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.reply_delay_ms = 200});
    struct asked *c = ask_by(0);
    for (unsigned i = 0; i < 4; i++)
        turn_loops(); /* it is under way */
    lane_cancel(&c->request);
    ends_as(ask_by(0), ERR_OK);
    assert_true(a->told == 0 && c->told == 0 && bits[1] == 0);
    free(a);
    free(c);
}

/* --- four workers --- */

enum { WORKERS = 4, EACH_ROUNDS = 150, AT_ONCE = 8, EACH_KEYS = 3 };

struct worker {
    pthread_t thread;
    struct event_base *base;
    struct lane_port *port;
    struct slot {
        struct worker *worker;
        struct lane_request request;
        struct key_hash keys[EACH_KEYS];
        uint8_t fresh[EACH_KEYS];
        bool adds;
    } slot[AT_ONCE];
    unsigned number, begun, told, fresh, wrong;
};

static void begin_one(struct worker *o, struct slot *s);

static void on_worker_done(void *arg, const struct lane_result *result)
{
    struct slot *s = arg;
    struct worker *o = s->worker;
    o->told++;
    o->wrong += result->code != ERR_OK;
    for (unsigned i = 0; s->adds && i < EACH_KEYS; i++) {
        o->fresh += s->fresh[i];
        o->wrong += atomic_load_explicit(&bits[s->keys[i].low], memory_order_relaxed) == 0;
    }
    begin_one(o, s);
    if (o->told == EACH_ROUNDS * AT_ONCE)
        (void)event_base_loopbreak(o->base);
}

/* Every worker adds the same keys. */
static void begin_one(struct worker *o, struct slot *s)
{
    if (o->begun == EACH_ROUNDS * AT_ONCE)
        return;
    unsigned n = o->begun++;
    s->adds = n % 2 == 0;
    for (unsigned i = 0; i < EACH_KEYS; i++)
        s->keys[i] = (struct key_hash){.high = o->number, .low = (n * EACH_KEYS + i) % KEYS};
    if (s->adds)
        lane_add(o->port, w.reader, &s->request, s->keys, EACH_KEYS, s->fresh, on_worker_done, s);
    else
        lane_ask(o->port, w.reader, &s->request, on_worker_done, s);
}

static void *work(void *arg)
{
    struct worker *o = arg;
    o->base = event_base_new();
    struct store *store = store_new(o->base, &w.direct, REPLY_MS, NULL);
    o->port = lane_port_new(o->base, store, GUARD_MS);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        o->slot[i].worker = o;
        begin_one(o, &o->slot[i]);
    }
    (void)event_base_dispatch(o->base);
    lane_port_free(o->port);
    store_free(store);
    event_base_free(o->base);
    return NULL;
}

static void test_four_workers__are_told_what_is_new_once(void **state)
{
    static struct worker worker[WORKERS];
    unsigned told = 0, fresh = 0, wrong = 0, set = 0;
    (void)state;
    reset_calls();
    for (unsigned i = 0; i < WORKERS; i++) {
        worker[i] = (struct worker){.number = i};
        assert_int_equal(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        (void)pthread_join(worker[i].thread, NULL);
        told += worker[i].told;
        fresh += worker[i].fresh;
        wrong += worker[i].wrong;
    }
    for (unsigned i = 0; i < KEYS; i++)
        set += bits[i];
    assert_int_equal(told, WORKERS * EACH_ROUNDS * AT_ONCE);
    assert_int_equal(wrong, 0);
    assert_int_equal(fresh, set);
    uint64_t reads = calls_of("xrange");
    assert_true(reads < told / 2); /* they share */
    ends_as(ask_by(0), ERR_OK);
}

#define READER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READER_TEST(test_requests_of_one_turn__share_one_write),
        READER_TEST(test_what_comes_while_a_read_is_under_way__shares_the_next),
        READER_TEST(test_many_keys__go_as_full_entries_and_say_what_was_new),
        READER_TEST(test_more_keys_than_a_turn_has__go_in_several),
        READER_TEST(test_a_tail_of_many_pages__is_read_to_its_end),
        READER_TEST(test_a_lost_reply__has_the_entry_found_not_sent_again),
        READER_TEST(test_bytes_that_are_executed_later__change_nothing),
        READER_TEST(test_the_first_of_two_same_entries__decides),
        READER_TEST(test_a_silent_server__costs_no_more_than_the_deadline),
        READER_TEST(test_a_lane_that_is_lost__is_told_to_all_and_not_made_again),
        READER_TEST(test_a_gap__is_told_until_the_reader_is_moved),
        READER_TEST(test_another_era__is_told_until_it_is_accepted),
        READER_TEST(test_who_waits_for_a_new_era__has_its_entry_met_once),
        READER_TEST(test_who_waits_for_a_new_era__has_its_entry_sent_again),
        READER_TEST(test_what_was_met_before_a_move__is_met_again),
        READER_TEST(test_who_goes_back__knows_what_was_new),
        READER_TEST(test_what_cannot_be_applied__is_told_and_applied_later),
        READER_TEST(test_what_is_acknowledged__is_kept_until_it_is_folded),
        READER_TEST(test_more_than_may_be_kept__is_not_sent),
        READER_TEST(test_an_era_that_the_process_has_left__stalls),
        READER_TEST(test_a_list__is_refused_by_name),
        READER_TEST(test_a_server_without_memory__refuses_adds_and_serves_reads),
        READER_TEST(test_a_worker_that_goes__leaves_its_read_to_another),
        READER_TEST(test_a_port_whose_loop_rests__leaves_the_next_read_to_another),
        READER_TEST(test_what_is_cancelled__is_not_told),
        READER_TEST(test_four_workers__are_told_what_is_new_once),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
