/* SPDX-License-Identifier: MIT */
#include "tests/integration/roll_case.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/view/view_load.h"
#include "tests/integration/lane_append.h"

enum { REPLY_MS = 5000, SYNC_CLIENT_MS = 2000, WAIT_US = 10 * 1000 * 1000, OWN_BYTES = 8 << 20 };

struct roll_case w;

/* --- fixture --- */

int roll_case_start(void **state)
{
    static const char *const at_once[] = {"--repl-diskless-sync-delay", "0", NULL};
    struct error e = {""};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_redis_start(&w.home, NULL, &e), e);
    must(client_open(&w.home_client, w.home.port, REPLY_MS, &e), e);
    must(temp_redis_start(&w.one, at_once, &e), e);
    must(temp_redis_start(&w.other, at_once, &e), e);
    must(client_open(&w.client, w.one.port, REPLY_MS, &e), e);
    must(client_open(&w.other_client, w.other.port, REPLY_MS, &e), e);
    w.view = calloc(1, sizeof(*w.view));
    assert_non_null(w.view);
    return 0;
}

int roll_case_stop(void **state)
{
    (void)state;
    client_close(&w.home_client);
    client_close(&w.client);
    client_close(&w.other_client);
    temp_redis_fini(&w.home);
    temp_redis_fini(&w.one);
    temp_redis_fini(&w.other);
    free(w.view);
    return 0;
}

struct key_name roll_case_view_key(void)
{
    struct key_name key;
    names_filter_key(&w.names, "view", &key);
    return key;
}

void roll_case_put_field(void *arg, const char *name, const char *value)
{
    struct key_name key = roll_case_view_key();
    (void)arg;
    redisReply *r = client_command(&w.home_client, "HSET %b %s %s", key.text, key.length, name, value);
    assert_true(r != NULL && r->type == REDIS_REPLY_INTEGER);
    freeReplyObject(r);
}

char *roll_case_field(const char *name)
{
    static char texts[4][4600];
    static unsigned next;
    char *text = texts[next++ % 4];
    struct key_name key = roll_case_view_key();
    redisReply *r = client_command(&w.home_client, "HGET %b %s", key.text, key.length, name);
    assert_true(r != NULL && (r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_NIL));
    (void)snprintf(text, sizeof(texts[0]), "%s", r->type == REDIS_REPLY_NIL ? "(nil)" : r->str);
    freeReplyObject(r);
    return text;
}

void roll_case_load_view(void)
{
    struct error e = {""};
    must(log_view_load(w.writer[0].link, &w.names, w.view, &e), e);
}

void roll_case_store_folded(unsigned slot, unsigned lane, uint64_t number, const struct log_position *p)
{
    struct buffer text = {0};
    char name[LOG_FOLDED_NAME_MAX];
    buffer_printf(&text, "%" PRIu64 " ", number);
    log_position_format(p, &text);
    buffer_puts(&text, " 1");
    log_folded_name(slot, lane, name);
    roll_case_put_field(NULL, name, buffer_text(&text));
    buffer_fini(&text);
}

static void make_view(unsigned lanes, const struct lane *lane)
{
    w.g = (struct generation){.number = ROLL_CASE_GENERATION,
                              .seed = 77,
                              .built = true,
                              .capacity = 1000,
                              .error_rate = 0.01,
                              .layer_count = 1};
    nodes_pin(&w.nodes, &w.g);
    w.g.layers[0] = (struct layer){.geometry = {.shards = 1, .blocks = 16, .block_bits = 1024, .hashes = 7},
                                   .capacity = 1000,
                                   .error_rate = 0.01,
                                   .token = 1};
    *w.view = (struct log_view){.incarnation = w.names.incarnation,
                                .version = 1,
                                .seed = 9,
                                .last_generation = ROLL_CASE_GENERATION + 1,
                                .lane_count = lanes,
                                .lane_node_count = lanes};
    for (unsigned i = 0; i < lanes; i++) {
        w.view->lane[i] = (struct log_lane){1, lane[i].era};
        (void)snprintf(w.view->lane_node[i], NODE_NAME_MAX, "%s", w.nodes.node[lane[i].where].name);
    }
    w.view->slot[0].shape = w.g;
    w.view->slot[1].shape = w.g;
    w.view->slot[1].shape.number = ROLL_CASE_GENERATION + 1;
    log_view_format(w.view, roll_case_put_field, NULL);
}

/* Read the view, and continue in its lane, under its era, from the folded position. */
static void follow(struct roll_case_writer *o)
{
    struct error e = {""};
    roll_case_load_view();
    must(roll_lane(&o->roll, w.view, 0, &o->lane, &e), e);
    assert_true(log_view_is_folded(w.view, &w.view->slot[0], 0));
    o->at = w.view->slot[0].folded[0].position;
}

static void open_writer(struct roll_case_writer *o, unsigned number)
{
    memset(o, 0, sizeof(*o));
    memset(o->id, (int)(number + 1), sizeof(o->id));
    o->link = sync_client_new(&w.nodes, SYNC_CLIENT_MS, NULL);
    o->own = own_new(OWN_BYTES);
    assert_true(o->link != NULL && o->own != NULL);
    roll_init(&o->roll, o->link, &w.names, o->id);
}

static void close_writer(struct roll_case_writer *o)
{
    roll_fini(&o->roll);
    own_free(o->own);
    sync_client_free(o->link);
}

static int set_up_with(unsigned lanes)
{
    struct error e = {""};
    char url[140];
    uint16_t port;
    struct lane lane[2];
    must(client_ok(&w.home_client, &e, "FLUSHALL"), e);
    must(client_ok(&w.client, &e, "REPLICAOF NO ONE"), e);
    must(client_ok(&w.client, &e, "FLUSHALL"), e);
    must(client_ok(&w.other_client, &e, "REPLICAOF NO ONE"), e);
    must(client_ok(&w.other_client, &e, "FLUSHALL"), e);
    must(proxy_start(&w.proxy, &e), e);
    must(proxy_add(w.proxy, WIRE_REDIS, w.one.port, &w.route, &port, &e), e);
    (void)snprintf(url, sizeof(url), "%s,redis://127.0.0.1:%u", w.home.url, port);
    must(nodes_parse(&w.nodes, url, &e), e);
    must(names_init(&w.names, "tb", "f", 1, &e), e);
    w.names.incarnation = 0xabcdef;
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        open_writer(&w.writer[i], i);
    for (unsigned i = lanes; i-- > 0;) { /* lane 1 is on the metadata node */
        lane[i] = (struct lane){.where = i == 0 ? ROLL_CASE_LANE_NODE : NODE_HOME};
        lane_key(&lane[i].key, &w.names, i, 1);
        must(lane_make(w.writer[0].link, &lane[i], lanes_writer, 1, &w.anchor, &e), e);
    }
    make_view(lanes, lane);
    for (unsigned i = 0; i < lanes; i++)
        roll_case_store_folded(0, i, 1, &w.anchor);
    roll_case_store_folded(1, 0, 1, &w.anchor);
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++) {
        must(roll_register(&w.writer[i].roll, &e), e);
        follow(&w.writer[i]);
        own_enter(w.writer[i].own, &w.writer[i].lane);
    }
    return 0;
}

int roll_case_set_up(void **state)
{
    (void)state;
    return set_up_with(1);
}

int roll_case_set_up_two_lanes(void **state)
{
    (void)state;
    return set_up_with(2);
}

int roll_case_tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        close_writer(&w.writer[i]);
    proxy_stop(w.proxy);
    return 0;
}

/* --- what a writer does --- */

static enum err apply(void *arg, const struct tail_record *record, struct error *e)
{
    struct roll_case_writer *o = arg;
    if (memcmp(record->entry.writer, o->id, LOG_WRITER_BYTES) != 0)
        return ERR_OK;
    return own_met(o->own, &o->lane, record->entry.sequence, record->id, record->bytes, record->length, e);
}

enum err roll_case_try_add(struct roll_case_writer *o, enum tail_state *state, struct error *e)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    const struct key_hash key = {.high = o->id[0], .low = ++o->sequence};
    size_t length = log_entry_encode(bytes, o->id, o->sequence, &key, 1);
    return lane_append(o->link, &o->lane, &o->at, bytes, length, apply, o, state, e);
}

void roll_case_add(struct roll_case_writer *o, unsigned count)
{
    struct error e = {""};
    for (unsigned i = 0; i < count; i++) {
        enum tail_state state = TAIL_EMPTY;
        must(roll_case_try_add(o, &state, &e), e);
        assert_string_equal(tail_state_name(state), tail_state_name(TAIL_COMPLETE));
    }
}

void roll_case_adds_as(struct roll_case_writer *o, enum tail_state wanted)
{
    struct error e = {""};
    enum tail_state state = TAIL_EMPTY;
    must(roll_case_try_add(o, &state, &e), e);
    assert_string_equal(tail_state_name(state), tail_state_name(wanted));
}

void roll_case_answers(struct roll_case_writer *o)
{
    struct error e = {""};
    uint64_t era;
    roll_case_load_view();
    must(roll_answer(&o->roll, w.view, 0, o->own, &era, &e), e);
}

unsigned roll_case_taking(struct roll_case_writer *o)
{
    struct error e = {""};
    unsigned missing = 99;
    roll_case_load_view();
    must(roll_take_era(&o->roll, w.view, 0, NULL, &missing, &e), e);
    return missing;
}

void roll_case_call(void)
{
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        roll_case_answers(&w.writer[i]);
    assert_int_equal(roll_case_taking(&w.writer[1]), 0);
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        follow(&w.writer[i]);
}

void roll_case_hold(unsigned lane, struct log_id id)
{
    char name[16], text[LOG_ID_TEXT_MAX + 8] = "1 ";
    (void)snprintf(name, sizeof(name), "hold.%u", lane);
    (void)log_id_format(id, text + 2);
    roll_case_put_field(NULL, name, text);
}

/* --- what is in the lane --- */

struct count {
    uint8_t id;
    uint64_t sequence;
    unsigned times;
};

static enum err count_entry(void *arg, const struct tail_record *record, struct error *e)
{
    struct count *c = arg;
    (void)e;
    c->times += record->entry.writer[0] == c->id && record->entry.sequence == c->sequence;
    return ERR_OK;
}

unsigned roll_case_times(const struct roll_case_writer *o, uint64_t sequence)
{
    struct error e = {""};
    struct count c = {o->id[0], sequence, 0};
    struct lane_page page;
    struct lane lane;
    struct log_id from = {0};
    roll_case_load_view();
    must(roll_lane(&o->roll, w.view, 0, &lane, &e), e);
    do {
        must(lane_look(o->link, &lane, from, 2000, count_entry, &c, &page, &e), e);
        assert_true(page.era == lane.era);
        from = page.last;
        from.number++;
    } while (page.more);
    return c.times;
}

void roll_case_all_are_there(const struct roll_case_writer *o)
{
    for (uint64_t i = 1; i <= o->sequence; i++)
        if (roll_case_times(o, i) == 0)
            fail_msg("entry %" PRIu64 " of writer %d is missing", i, o->id[0]);
}

uint64_t roll_case_version(void)
{
    return strtoull(roll_case_field("version"), NULL, 10);
}

/* --- servers --- */

void roll_case_renew_era(struct client *c)
{
    struct error e = {""};
    uint64_t before = lanes_era(c);
    must(client_ok(c, &e, "REPLICAOF 127.0.0.1 1"), e); /* no server there: the node keeps its data */
    must(client_ok(c, &e, "REPLICAOF NO ONE"), e);
    assert_true(lanes_era(c) != before);
}

void roll_case_catch_up(void)
{
    struct error e = {""};
    struct key_name key = w.writer[0].lane.key;
    uint64_t until = clock_mono_us() + WAIT_US;
    int64_t mine = 0, others = -1;
    while (mine != others && clock_mono_us() < until) {
        clock_sleep_us(10000);
        must(client_integer(&w.client, &mine, &e, "XLEN %b", key.text, key.length), e);
        must(client_integer(&w.other_client, &others, &e, "XLEN %b", key.text, key.length), e);
    }
    assert_int_equal(mine, others);
}

void roll_case_replicate(void)
{
    struct error e = {""};
    must(client_ok(&w.other_client, &e, "REPLICAOF 127.0.0.1 %u", w.one.port), e);
    roll_case_catch_up();
}

void roll_case_lag(void)
{
    struct error e = {""};
    must(client_ok(&w.other_client, &e, "REPLICAOF NO ONE"), e);
}

static enum err look_by(struct roll_case_writer *o, struct error *e)
{
    struct count c = {0};
    struct lane_page page;
    return lane_look(o->link, &o->lane, (struct log_id){0}, 1, count_entry, &c, &page, e);
}

void roll_case_fail_over(void)
{
    struct error e = {""};
    proxy_aim(w.proxy, w.route, w.other.port);
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++) {
        uint64_t until = clock_mono_us() + WAIT_US;
        while (look_by(&w.writer[i], &e) != ERR_OK && clock_mono_us() < until)
            clock_sleep_us(1000);
    }
}

void roll_case_fail_over_with(unsigned kept, unsigned lost)
{
    roll_case_replicate();
    roll_case_call(); /* the first replica has changed the era */
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        roll_case_add(&w.writer[i], kept);
    roll_case_catch_up();
    roll_case_lag();
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        roll_case_add(&w.writer[i], lost);
    roll_case_fail_over();
}

int64_t roll_case_length_of(struct client *c, const struct lane *lane)
{
    return lanes_number(c, "XLEN", lane);
}

static void count_name(const char *name, void *arg)
{
    (void)name;
    ++*(unsigned *)arg;
}

unsigned roll_case_keys_of(struct client *c, const char *pattern)
{
    struct error e = {""};
    unsigned count = 0;
    must(client_scan(c, pattern, count_name, &count, &e), e);
    return count;
}
