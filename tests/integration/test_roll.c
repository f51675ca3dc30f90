/* SPDX-License-Identifier: MIT */
/* The roll call on real servers. A lagging replica replaces a lane's master, writers append the missing
 * entries again, and the view accepts the era. A lane that is lost gets another stream. The view is on a node
 * of its own; the lane's node is behind a proxy that can lead to another server. */
#include "tests/integration/lanes.h"
#include "tests/integration/lane_append.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/fold/fold.h"
#include "shard/generations/build.h"
#include "shard/generations/grace.h"
#include "shard/members/remove.h"
#include "shard/members/roll.h"
#include "shard/view/view_load.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

enum {
    REPLY_MS = 5000,
    SYNC_CLIENT_MS = 2000,
    WAIT_US = 10 * 1000 * 1000,
    OWN_BYTES = 8 << 20,
    GENERATION = 2,
    WRITERS = 2,
    LANE_NODE = 1
};

struct writer {
    uint8_t id[LOG_WRITER_BYTES];
    struct sync_client *link;
    struct roll roll;
    struct own *own;
    struct lane lane; /* as the writer read it last in the view */
    struct log_position at;
    uint64_t sequence;
};

struct world {
    struct temp_redis home, one, other; /* the lane is on @one, whose replica may be @other */
    struct client home_client, client, other_client;
    struct proxy *proxy;
    unsigned route;
    struct nodes nodes;
    struct names names;
    struct generation g;
    struct writer writer[WRITERS];
    struct log_view *view;
    struct log_position anchor;
};

static struct world w;

/* --- fixture --- */

static int start(void **state)
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

static int stop(void **state)
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

static struct key_name view_key(void)
{
    struct key_name key;
    names_filter_key(&w.names, "view", &key);
    return key;
}

static void put_field(void *arg, const char *name, const char *value)
{
    struct key_name key = view_key();
    (void)arg;
    redisReply *r = client_command(&w.home_client, "HSET %b %s %s", key.text, key.length, name, value);
    assert_true(r != NULL && r->type == REDIS_REPLY_INTEGER);
    freeReplyObject(r);
}

static char *field(const char *name)
{
    static char texts[4][4600];
    static unsigned next;
    char *text = texts[next++ % 4];
    struct key_name key = view_key();
    redisReply *r = client_command(&w.home_client, "HGET %b %s", key.text, key.length, name);
    assert_true(r != NULL && (r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_NIL));
    (void)snprintf(text, sizeof(texts[0]), "%s", r->type == REDIS_REPLY_NIL ? "(nil)" : r->str);
    freeReplyObject(r);
    return text;
}

static void load_view(void)
{
    struct error e = {""};
    must(log_view_load(w.writer[0].link, &w.names, w.view, &e), e);
}

static void store_folded(unsigned slot, unsigned lane, uint64_t number, const struct log_position *p)
{
    struct buffer text = {0};
    char name[LOG_FOLDED_NAME_MAX];
    buffer_printf(&text, "%" PRIu64 " ", number);
    log_position_format(p, &text);
    buffer_puts(&text, " 1");
    log_folded_name(slot, lane, name);
    put_field(NULL, name, buffer_text(&text));
    buffer_fini(&text);
}

static void make_view(unsigned lanes, const struct lane *lane)
{
    w.g = (struct generation){.number = GENERATION,
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
                                .last_generation = GENERATION + 1,
                                .lane_count = lanes,
                                .lane_node_count = lanes};
    for (unsigned i = 0; i < lanes; i++) {
        w.view->lane[i] = (struct log_lane){1, lane[i].era};
        (void)snprintf(w.view->lane_node[i], NODE_NAME_MAX, "%s", w.nodes.node[lane[i].where].name);
    }
    w.view->slot[0].shape = w.g;
    w.view->slot[1].shape = w.g;
    w.view->slot[1].shape.number = GENERATION + 1;
    log_view_format(w.view, put_field, NULL);
}

/* Read the view, and continue in its lane, under its era, from the folded position. */
static void follow(struct writer *o)
{
    struct error e = {""};
    load_view();
    must(roll_lane(&o->roll, w.view, 0, &o->lane, &e), e);
    assert_true(log_view_is_folded(w.view, &w.view->slot[0], 0));
    o->at = w.view->slot[0].folded[0].position;
}

static void open_writer(struct writer *o, unsigned number)
{
    memset(o, 0, sizeof(*o));
    memset(o->id, (int)(number + 1), sizeof(o->id));
    o->link = sync_client_new(&w.nodes, SYNC_CLIENT_MS, NULL);
    o->own = own_new(OWN_BYTES);
    assert_true(o->link != NULL && o->own != NULL);
    roll_init(&o->roll, o->link, &w.names, o->id);
}

static void close_writer(struct writer *o)
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
    for (unsigned i = 0; i < WRITERS; i++)
        open_writer(&w.writer[i], i);
    for (unsigned i = lanes; i-- > 0;) { /* lane 1 is on the metadata node */
        lane[i] = (struct lane){.where = i == 0 ? LANE_NODE : NODE_HOME};
        lane_key(&lane[i].key, &w.names, i, 1);
        must(lane_make(w.writer[0].link, &lane[i], lanes_writer, 1, &w.anchor, &e), e);
    }
    make_view(lanes, lane);
    for (unsigned i = 0; i < lanes; i++)
        store_folded(0, i, 1, &w.anchor);
    store_folded(1, 0, 1, &w.anchor);
    for (unsigned i = 0; i < WRITERS; i++) {
        must(roll_register(&w.writer[i].roll, &e), e);
        follow(&w.writer[i]);
        own_enter(w.writer[i].own, &w.writer[i].lane);
    }
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(1);
}

static int set_up_two_lanes(void **state)
{
    (void)state;
    return set_up_with(2);
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WRITERS; i++)
        close_writer(&w.writer[i]);
    proxy_stop(w.proxy);
    return 0;
}

/* --- what a writer does --- */

static enum err apply(void *arg, const struct tail_record *record, struct error *e)
{
    struct writer *o = arg;
    if (memcmp(record->entry.writer, o->id, LOG_WRITER_BYTES) != 0)
        return ERR_OK;
    return own_met(o->own, &o->lane, record->entry.sequence, record->id, record->bytes, record->length, e);
}

static enum err try_add(struct writer *o, enum tail_state *state, struct error *e)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    const struct key_hash key = {.high = o->id[0], .low = ++o->sequence};
    size_t length = log_entry_encode(bytes, o->id, o->sequence, &key, 1);
    return lane_append(o->link, &o->lane, &o->at, bytes, length, apply, o, state, e);
}

/* Add entries, which must be acknowledged. */
static void add(struct writer *o, unsigned count)
{
    struct error e = {""};
    for (unsigned i = 0; i < count; i++) {
        enum tail_state state = TAIL_EMPTY;
        must(try_add(o, &state, &e), e);
        assert_string_equal(tail_state_name(state), tail_state_name(TAIL_COMPLETE));
    }
}

static void adds_as(struct writer *o, enum tail_state wanted)
{
    struct error e = {""};
    enum tail_state state = TAIL_EMPTY;
    must(try_add(o, &state, &e), e);
    assert_string_equal(tail_state_name(state), tail_state_name(wanted));
}

static void answers(struct writer *o)
{
    struct error e = {""};
    uint64_t era;
    load_view();
    must(roll_answer(&o->roll, w.view, 0, o->own, &era, &e), e);
}

/* How many writers the view still waits for. */
static unsigned taking(struct writer *o)
{
    struct error e = {""};
    unsigned missing = 99;
    load_view();
    must(roll_take_era(&o->roll, w.view, 0, NULL, &missing, &e), e);
    return missing;
}

/* Have all writers answer, and the view accept the era. */
static void roll_call(void)
{
    for (unsigned i = 0; i < WRITERS; i++)
        answers(&w.writer[i]);
    assert_int_equal(taking(&w.writer[1]), 0);
    for (unsigned i = 0; i < WRITERS; i++)
        follow(&w.writer[i]);
}

static enum err pass_over(void *arg, const struct tail_record *record, struct error *e)
{
    (void)arg;
    (void)record;
    (void)e;
    return ERR_OK;
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

/* How often entry @sequence of @o is in the view's lane, under its era. */
static unsigned times(const struct writer *o, uint64_t sequence)
{
    struct error e = {""};
    struct count c = {o->id[0], sequence, 0};
    struct lane_page page;
    struct lane lane;
    struct log_id from = {0};
    load_view();
    must(roll_lane(&o->roll, w.view, 0, &lane, &e), e);
    do {
        must(lane_look(o->link, &lane, from, 2000, count_entry, &c, &page, &e), e);
        assert_true(page.era == lane.era);
        from = page.last;
        from.number++;
    } while (page.more);
    return c.times;
}

static void all_are_there(const struct writer *o)
{
    for (uint64_t i = 1; i <= o->sequence; i++)
        if (times(o, i) == 0)
            fail_msg("entry %" PRIu64 " of writer %d is missing", i, o->id[0]);
}

static uint64_t version(void)
{
    return strtoull(field("version"), NULL, 10);
}

/* --- servers --- */

/* Give the server of @c another replication id. Nothing is lost. */
static void renew_era(struct client *c)
{
    struct error e = {""};
    uint64_t before = lanes_era(c);
    must(client_ok(c, &e, "REPLICAOF 127.0.0.1 1"), e); /* no server there: the node keeps its data */
    must(client_ok(c, &e, "REPLICAOF NO ONE"), e);
    assert_true(lanes_era(c) != before);
}

/* Wait until the other server has the whole lane. */
static void catch_up(void)
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

static void replicate(void)
{
    struct error e = {""};
    must(client_ok(&w.other_client, &e, "REPLICAOF 127.0.0.1 %u", w.one.port), e);
    catch_up();
}

/* End the replication: later entries will be lost by fail_over(). */
static void lag(void)
{
    struct error e = {""};
    must(client_ok(&w.other_client, &e, "REPLICAOF NO ONE"), e);
}

static enum err look_by(struct writer *o, struct error *e)
{
    struct count c = {0};
    struct lane_page page;
    return lane_look(o->link, &o->lane, (struct log_id){0}, 1, count_entry, &c, &page, e);
}

/* Have the address lead to the other server. Connections break and are opened again. */
static void fail_over(void)
{
    struct error e = {""};
    proxy_aim(w.proxy, w.route, w.other.port);
    for (unsigned i = 0; i < WRITERS; i++) {
        uint64_t until = clock_mono_us() + WAIT_US;
        while (look_by(&w.writer[i], &e) != ERR_OK && clock_mono_us() < until)
            clock_sleep_us(1000);
    }
}

/* Replace the lane's node by another server, which has @kept entries of each writer, and lacks @lost. */
static void fail_over_with(unsigned kept, unsigned lost)
{
    replicate();
    roll_call(); /* the first replica has changed the era */
    for (unsigned i = 0; i < WRITERS; i++)
        add(&w.writer[i], kept);
    catch_up();
    lag();
    for (unsigned i = 0; i < WRITERS; i++)
        add(&w.writer[i], lost);
    fail_over();
}

static int64_t length_of(struct client *c, const struct lane *lane)
{
    return lanes_number(c, "XLEN", lane);
}

static void count_name(const char *name, void *arg)
{
    (void)name;
    ++*(unsigned *)arg;
}

static unsigned keys_of(struct client *c, const char *pattern)
{
    struct error e = {""};
    unsigned count = 0;
    must(client_scan(c, pattern, count_name, &count, &e), e);
    return count;
}

/* --- the register --- */

static void test_a_writer__registers_once_and_leaves(void **state)
{
    struct error e = {""};
    char name[LOG_WRITER_NAME_MAX];
    (void)state;
    uint64_t before = version();
    log_writer_name(w.writer[0].id, name);
    must(roll_leave(&w.writer[0].roll, &e), e);
    assert_string_equal(field(name), "(nil)");
    assert_int_equal(version(), before + 1);
    must(roll_leave(&w.writer[0].roll, &e), e);
    uint64_t first = w.writer[0].roll.registration;
    must(roll_register(&w.writer[0].roll, &e), e);
    assert_true(w.writer[0].roll.registration > first);
    assert_true(strtoull(field(name), NULL, 10) == w.writer[0].roll.registration);
    assert_int_equal(version(), before + 2);
    put_field(NULL, name, "1900000000000000 0.1:00000000000000e1");
    must(roll_register(&w.writer[0].roll, &e), e); /* the stored answer stays */
    assert_true(w.writer[0].roll.registration == 1900000000000000);
    assert_string_equal(field(name), "1900000000000000 0.1:00000000000000e1");
    put_field(NULL, name, "1900000000000000? 0.1:00000000000000e1");
    must(roll_register(&w.writer[0].roll, &e), e);
    assert_string_equal(field(name), "1900000000000001 0.1:00000000000000e1");
    w.writer[0].roll.registration = 1900000000000005; /* at least this number */
    must(roll_register(&w.writer[0].roll, &e), e);
    assert_string_equal(field(name), "1900000000000005 0.1:00000000000000e1");
    assert_int_equal(version(), before + 2);
    load_view();
    assert_int_equal(w.view->writer_count, WRITERS);
}

static void test_register__is_refused_where_nobody_may_add(void **state)
{
    struct error e = {""};
    char name[LOG_WRITER_NAME_MAX];
    (void)state;
    uint8_t id[LOG_WRITER_BYTES] = "somebody else...";
    struct roll *r = &w.writer[0].roll;
    memcpy(r->writer, id, sizeof(id));
    put_field(NULL, "deleting", "1");
    gives(ERR_CONFLICT, roll_register(r, &e), e);
    assert_non_null(strstr(e.text, "tb:{f}:view: the filter is being deleted"));
    put_field(NULL, "deleting", "0");
    put_field(NULL, "incarnation", "0000000000abcdee");
    gives(ERR_NOT_FOUND, roll_register(r, &e), e);
    put_field(NULL, "incarnation", "0000000000abcdef");
    for (unsigned i = WRITERS; i < LOG_WRITERS_MAX; i++) {
        id[3] = (uint8_t)i;
        log_writer_name(id, name);
        put_field(NULL, name, "1");
    }
    id[3] = 1;
    memcpy(r->writer, id, sizeof(id));
    gives(ERR_RANGE, roll_register(r, &e), e);
    assert_non_null(strstr(e.text, "256"));
    log_writer_name(id, name);
    assert_string_equal(field(name), "(nil)");
    must(client_ok(&w.home_client, &e, "FLUSHALL"), e);
    gives(ERR_NOT_FOUND, roll_register(r, &e), e);
    assert_int_equal(keys_of(&w.home_client, "*"), 0);
}

/* --- the roll call --- */

static void test_the_first_replica__is_routine(void **state)
{
    (void)state;
    add(&w.writer[0], 3);
    add(&w.writer[1], 3);
    replicate();
    adds_as(&w.writer[0], TAIL_ERA);
    int64_t before = length_of(&w.client, &w.writer[0].lane);
    roll_call();
    assert_int_equal(length_of(&w.client, &w.writer[0].lane), before); /* nothing is missing */
    assert_int_equal(w.view->lane[0].number, 1);
    assert_true(w.view->lane[0].era == lanes_era(&w.client));
    assert_false(w.view->degraded);
    add(&w.writer[0], 1);
}

static void test_what_a_failover_lost__is_in_the_lane_again(void **state)
{
    (void)state;
    fail_over_with(5, 70); /* more than one batch */
    uint64_t before = version();
    adds_as(&w.writer[0], TAIL_ERA);
    w.writer[0].sequence--; /* the entry was not acknowledged */
    roll_call();
    assert_true(w.view->lane[0].era == lanes_era(&w.other_client));
    assert_int_equal(version(), before + 1);
    assert_false(w.view->degraded);
    for (unsigned i = 0; i < WRITERS; i++) {
        all_are_there(&w.writer[i]);
        assert_int_equal(times(&w.writer[i], 1), 1); /* and existing entries are not repeated */
        assert_int_equal(times(&w.writer[i], 75), 1);
    }
    add(&w.writer[0], 3);
    add(&w.writer[1], 3);
    all_are_there(&w.writer[0]);
}

static void test_positions__go_back_to_the_first_entry(void **state)
{
    (void)state;
    char name[LOG_WRITER_NAME_MAX];
    fail_over_with(5, 5);
    store_folded(0, 0, 1, &w.writer[0].at); /* the position of an entry that the failover lost */
    store_folded(1, 0, 7, &w.writer[0].at); /* a position in another stream */
    for (unsigned i = 0; i < WRITERS; i++)
        answers(&w.writer[i]);
    log_writer_name(w.writer[0].id, name);
    assert_true(strstr(field(name), " 0.1:") != NULL);
    assert_int_equal(taking(&w.writer[0]), 0);
    load_view();
    const struct log_folded *folded = w.view->slot[0].folded;
    assert_true(log_position_is(&folded[0].position, w.anchor.id, w.anchor.bytes, w.anchor.length));
    assert_int_equal(w.view->slot[1].folded[0].lane_number, 7);
    assert_true(log_position_is(&w.view->slot[1].folded[0].position, w.writer[0].at.id, w.writer[0].at.bytes,
                                w.writer[0].at.length));
    for (unsigned i = 0; i < WRITERS; i++) {
        log_writer_name(w.writer[i].id, name);
        assert_null(strchr(field(name), ' ')); /* answers of the old era are removed */
    }
}

/* A position before the lane's first entry is invalid, as entries in between may not be in the shards. */
static void test_positions__never_go_up(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    (void)state;
    add(&w.writer[0], 500);
    struct log_mark mark = log_mark_of(&w.writer[0].at);
    must(lane_trim(w.writer[0].link, &w.writer[0].lane, &mark, &trimmed, &e), e);
    assert_true(trimmed.removed > 100);
    renew_era(&w.client);
    for (unsigned i = 0; i < WRITERS; i++)
        answers(&w.writer[i]);
    assert_int_equal(taking(&w.writer[0]), 0);
    load_view();
    assert_true(
        log_position_is(&w.view->slot[0].folded[0].position, w.anchor.id, w.anchor.bytes, w.anchor.length));
}

/* As above, where the view went back, so that a writer was restored, and no era of the lane is accepted. */
static void test_positions__do_not_go_up_where_no_era_is_accepted(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    char name[LOG_WRITER_NAME_MAX];
    unsigned entered = 0;
    (void)state;
    add(&w.writer[0], 500);
    struct log_mark mark = log_mark_of(&w.writer[0].at);
    must(lane_trim(w.writer[0].link, &w.writer[0].lane, &mark, &trimmed, &e), e);
    assert_true(trimmed.removed > 100);
    load_view();
    struct log_lane had[LOG_LANES_MAX];
    memcpy(had, w.view->lane, sizeof(had));
    had[0].era ^= 1;
    struct log_writer gone = *log_view_writer(w.view, w.writer[1].id);
    log_writer_name(gone.id, name);
    struct key_name key = view_key();
    must(client_integer(&w.home_client, &(int64_t){0}, &e, "HDEL %b %s", key.text, key.length, name), e);
    must(remove_undo(&w.writer[0].roll, had, w.view->lane_count, &gone, 1, &entered, &e), e);
    assert_int_equal(entered, 1);
    load_view();
    assert_int_equal(w.view->lane[0].era, 0);
    for (unsigned i = 0; i < WRITERS; i++)
        answers(&w.writer[i]);
    assert_int_equal(taking(&w.writer[0]), 0);
    load_view();
    assert_true(w.view->lane[0].era != 0);
    assert_true(
        log_position_is(&w.view->slot[0].folded[0].position, w.anchor.id, w.anchor.bytes, w.anchor.length));
}

/* The view went back to one with other writers. One that has no room there may keep what the lane lost:
 * nobody could read a view with more. */
static void test_a_writer_without_room__degrades_the_filter(void **state)
{
    struct error e = {""};
    char name[LOG_WRITER_NAME_MAX];
    unsigned entered = 0;
    struct log_writer gone[2] = {{.registration = 7}, {.registration = 8}};
    (void)state;
    memset(gone[0].id, 7, LOG_WRITER_BYTES);
    memset(gone[1].id, 8, LOG_WRITER_BYTES);
    uint8_t id[LOG_WRITER_BYTES] = "somebody else...";
    for (unsigned i = WRITERS; i + 1 < LOG_WRITERS_MAX; i++) {
        id[3] = (uint8_t)i;
        log_writer_name(id, name);
        put_field(NULL, name, "1");
    }
    must(remove_undo(&w.writer[0].roll, w.view->lane, w.view->lane_count, gone, 1, &entered, &e), e);
    assert_int_equal(entered, 1);
    load_view();
    assert_int_equal(w.view->writer_count, LOG_WRITERS_MAX);
    assert_false(w.view->degraded);
    must(remove_undo(&w.writer[0].roll, w.view->lane, w.view->lane_count, gone, 2, &entered, &e), e);
    assert_int_equal(entered, 1);
    load_view();
    assert_int_equal(w.view->writer_count, LOG_WRITERS_MAX);
    assert_true(w.view->degraded);
}

static void test_a_writer_that_sleeps__is_waited_for(void **state)
{
    (void)state;
    fail_over_with(2, 2);
    char *lanes = field("lanes");
    assert_int_equal(taking(&w.writer[0]), 2);
    answers(&w.writer[0]);
    answers(&w.writer[0]);
    assert_int_equal(taking(&w.writer[0]), 1);
    assert_string_equal(field("lanes"), lanes);
    adds_as(&w.writer[0], TAIL_ERA);
    answers(&w.writer[1]);
    assert_int_equal(taking(&w.writer[0]), 0);
    assert_string_not_equal(field("lanes"), lanes);
    assert_int_equal(taking(&w.writer[0]), 0); /* the view has the era already */
    w.writer[0].sequence--;
    all_are_there(&w.writer[0]);
    all_are_there(&w.writer[1]);
}

static void test_a_page_of_entries__is_not_all(void **state)
{
    (void)state;
    add(&w.writer[0], LANE_RANGE_COUNT + 50);
    renew_era(&w.client);
    int64_t before = length_of(&w.client, &w.writer[0].lane);
    roll_call();
    assert_int_equal(length_of(&w.client, &w.writer[0].lane), before); /* all entries were found */
    assert_true(w.view->lane[0].era == lanes_era(&w.client));
}

/* An answer for one era does not count for the next one. */
static void test_an_era_that_changes_again__is_answered_again(void **state)
{
    (void)state;
    fail_over_with(2, 2);
    answers(&w.writer[0]);
    answers(&w.writer[1]);
    renew_era(&w.other_client);
    assert_int_equal(taking(&w.writer[0]), 2);
    answers(&w.writer[1]);
    assert_int_equal(taking(&w.writer[0]), 1);
    answers(&w.writer[0]);
    assert_int_equal(taking(&w.writer[0]), 0);
    all_are_there(&w.writer[0]);
    all_are_there(&w.writer[1]);
}

/* It is executed late, or comes from who has read an earlier view. With each look all would answer again. */
static void test_an_answer__does_not_stay_where_the_view_has_the_era(void **state)
{
    struct error e = {""};
    uint64_t era;
    (void)state;
    fail_over_with(2, 2);
    answers(&w.writer[0]);
    answers(&w.writer[1]);
    struct log_view *before = malloc(sizeof(*before));
    *before = *w.view;
    assert_int_equal(taking(&w.writer[0]), 0);
    gives(ERR_FENCED, roll_answer(&w.writer[1].roll, before, 0, w.writer[1].own, &era, &e), e);
    free(before);
    load_view();
    assert_int_equal(log_view_writer(w.view, w.writer[1].roll.writer)->said_count, 0);
    all_are_there(&w.writer[1]);
}

/* Entries that are met after their process has entered the next era are not acknowledged. */
static void test_what_is_met_under_an_era_that_was_left__is_not_acknowledged(void **state)
{
    struct error e = {""};
    enum tail_state got;
    (void)state;
    struct lane next = w.writer[0].lane;
    next.era++;
    own_enter(w.writer[0].own, &next);
    gives(ERR_FENCED, try_add(&w.writer[0], &got, &e), e);
    assert_int_equal(own_count(w.writer[0].own), 0);
}

/* The new master's clock is behind, so that a repeated entry gets an id before its earlier one. */
static void test_a_clock_that_is_behind__does_not_hide_what_was_appended(void **state)
{
    struct error e = {""};
    (void)state;
    struct writer *o = &w.writer[0];
    replicate();
    roll_call();
    lag();
    redisReply *r = client_command(&w.client, "XADD %b 9999999999999-0 e %b", o->lane.key.text,
                                   o->lane.key.length, w.anchor.bytes, (size_t)w.anchor.length);
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    freeReplyObject(r);
    add(o, 3); /* their ids follow that one */
    fail_over();
    uint64_t era;
    must(roll_answer(&o->roll, w.view, 0, o->own, &era, &e), e);
    assert_int_equal(length_of(&w.other_client, &o->lane), 1 + 3);
    answers(&w.writer[1]);
    assert_int_equal(taking(o), 0);
    all_are_there(o);
}

/* The reply is lost: the entries are in the lane, and are found there or appended again. */
static void test_a_broken_connection__only_has_it_repeated(void **state)
{
    struct error e = {""};
    uint64_t era;
    unsigned failed = 0;
    (void)state;
    fail_over_with(2, 5);
    for (unsigned resets = 1; resets <= 3; resets++) {
        proxy_set(w.proxy, w.route, &(struct proxy_fault){.resets = resets});
        load_view();
        enum err code = roll_answer(&w.writer[0].roll, w.view, 0, w.writer[0].own, &era, &e);
        failed += code == ERR_UNREACHABLE;
        assert_true(code == ERR_OK || code == ERR_UNREACHABLE);
    }
    assert_true(failed > 0);
    proxy_lift(w.proxy);
    roll_call();
    all_are_there(&w.writer[0]);
}

/* The command may be executed late, after the writer's next registration. */
static void test_to_leave__ends_one_registration_only(void **state)
{
    struct error e = {""};
    char name[LOG_WRITER_NAME_MAX];
    (void)state;
    struct roll *r = &w.writer[0].roll;
    log_writer_name(w.writer[0].id, name);
    r->left = r->registration; /* as if the command was sent, and not executed yet */
    struct roll late = *r;
    late.call = (struct script_call){.text = NULL};
    must(roll_register(r, &e), e);
    assert_true(r->registration > late.registration);
    must(roll_leave(&late, &e), e);
    roll_fini(&late);
    assert_true(strtoull(field(name), NULL, 10) == r->registration);
    all_are_there(&w.writer[0]);
}

static void test_a_view__says_of_all_writers_that_they_have_left(void **state)
{
    struct error e = {""};
    (void)state;
    load_view();
    struct log_view *before = malloc(sizeof(*before));
    assert_non_null(before);
    *before = *w.view;
    assert_true(before->writer_count >= 2);
    for (unsigned again = 0; again < 2; again++) {
        for (unsigned i = 0; i < before->writer_count; i++) {
            must(roll_register(&w.writer[i].roll, &e), e);
            must(roll_leave(&w.writer[i].roll, &e), e);
        }
        load_view();
        assert_int_equal(w.view->left_count, before->writer_count);
        for (unsigned i = 0; i < before->writer_count; i++)
            assert_false(log_view_lacks(w.view, &before->writer[i]));
    }
    for (unsigned i = 0; i < before->writer_count; i++)
        must(roll_register(&w.writer[i].roll, &e), e);
    free(before);
}

static void test_who_is_not_registered__cannot_answer(void **state)
{
    struct error e = {""};
    uint64_t era;
    (void)state;
    fail_over_with(2, 2);
    load_view();
    must(roll_leave(&w.writer[0].roll, &e), e);
    gives(ERR_NOT_FOUND, roll_answer(&w.writer[0].roll, w.view, 0, w.writer[0].own, &era, &e), e);
    load_view();
    gives(ERR_NOT_FOUND, roll_answer(&w.writer[0].roll, w.view, 0, w.writer[0].own, &era, &e), e);
    must(roll_register(&w.writer[0].roll, &e), e);
    roll_call();
    all_are_there(&w.writer[0]);
}

static void test_a_node_that_is_no_master__is_waited_for(void **state)
{
    struct error e = {""};
    uint64_t era;
    unsigned missing;
    (void)state;
    add(&w.writer[0], 1);
    must(client_ok(&w.client, &e, "REPLICAOF 127.0.0.1 1"), e); /* the connection survives this */
    gives(ERR_UNREACHABLE, roll_answer(&w.writer[0].roll, w.view, 0, w.writer[0].own, &era, &e), e);
    gives(ERR_UNREACHABLE, roll_take_era(&w.writer[0].roll, w.view, 0, NULL, &missing, &e), e);
    if (strstr(e.text, "no master") == NULL)
        fail_msg("%s", e.text);
}

static void test_scripts__run_at_maxmemory(void **state)
{
    struct error e = {""};
    (void)state;
    fail_over_with(0, 0);
    must(roll_leave(&w.writer[1].roll, &e), e);
    must(client_ok(&w.home_client, &e, "CONFIG SET maxmemory 1"), e);
    must(roll_register(&w.writer[1].roll, &e), e);
    roll_call();
    load_view();
    must(roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    answers(&w.writer[0]);
    load_view();
    must(remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    assert_int_equal(taking(&w.writer[0]), 0);
    must(client_ok(&w.home_client, &e, "CONFIG SET maxmemory 0"), e);
}

static void test_a_roll_call_of_two__takes_milliseconds(void **state)
{
    (void)state;
    fail_over_with(100, 20);
    uint64_t began = clock_mono_us();
    roll_call();
    uint64_t took = clock_mono_us() - began;
    print_message("a roll call of two writers, each with 20 of 120 entries missing: %" PRIu64 " us\n", took);
    assert_true(took < 1000000); /* with sanitizers, on a busy machine */
}

/* --- a writer that is gone --- */

static void test_a_writer_that_is_gone__is_removed_and_the_filter_degraded(void **state)
{
    struct error e = {""};
    (void)state;
    load_view();
    gives(ERR_CONFLICT, remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    fail_over_with(2, 2);
    answers(&w.writer[0]);
    load_view();
    gives(ERR_CONFLICT, remove_degraded(&w.writer[1].roll, w.view, w.writer[0].id, &e), e);
    assert_non_null(strstr(e.text, "no roll call waits for writer.0101"));
    assert_int_equal(taking(&w.writer[0]), 1);
    assert_false(w.view->degraded);
    uint64_t before = version();
    must(remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    gives(ERR_NOT_FOUND, remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    assert_int_equal(version(), before + 1);
    assert_int_equal(taking(&w.writer[0]), 0);
    load_view();
    assert_true(w.view->degraded);
    assert_int_equal(w.view->writer_count, 1);
    /* The writer was only stopped: it acknowledges nothing, and registers before it goes on. */
    adds_as(&w.writer[1], TAIL_ERA);
    uint64_t era;
    gives(ERR_NOT_FOUND, roll_answer(&w.writer[1].roll, w.view, 0, w.writer[1].own, &era, &e), e);
    must(roll_register(&w.writer[1].roll, &e), e);
    load_view();
    must(roll_answer(&w.writer[1].roll, w.view, 0, w.writer[1].own, &era, &e), e); /* the view has the era */
    w.writer[1].sequence--;
    all_are_there(&w.writer[1]);
}

/* A position with the id @id. */
static const struct log_position *at(struct log_id id)
{
    static struct log_position p;
    p = w.anchor;
    p.id = id;
    return &p;
}

static struct log_id just_before(struct log_id id)
{
    return (struct log_id){id.number == 0 ? id.ms - 1 : id.ms, id.number - 1};
}

static void test_a_writer_in_doubt__registers_again_or_is_removed(void **state)
{
    struct error e = {""};
    struct removal m;
    (void)state;
    load_view();
    struct log_writer gone = *log_view_writer(w.view, w.writer[1].id);
    assert_true(roll_is_registered(&w.writer[1].roll, w.view));
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    load_view();
    assert_false(roll_is_registered(&w.writer[1].roll, w.view));
    must(remove_begin(&w.writer[0].roll, w.view, &gone, &m, &e), e);
    must(roll_register(&w.writer[1].roll, &e), e);
    load_view();
    assert_true(roll_is_registered(&w.writer[1].roll, w.view));
    assert_true(w.writer[1].roll.registration > gone.registration);
    gives(ERR_NOT_FOUND, remove_end(&w.writer[0].roll, &m, &e),
          e); /* this removal is of the registration before */
    gives(ERR_NOT_FOUND, remove_doubt(&w.writer[0].roll, &gone, &e), e);
    gone = *log_view_writer(w.view, w.writer[1].id);
    must(remove_begin(&w.writer[0].roll, w.view, &gone, &m, &e), e);
    store_folded(0, 0, 1, at(m.notice[0]));
    store_folded(1, 0, 1, at(m.notice[0]));
    gives(ERR_NOT_FOUND, remove_end(&w.writer[0].roll, &m, &e), e); /* the writer is not in doubt */
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    uint64_t before = version();
    must(remove_end(&w.writer[0].roll, &m, &e), e);
    assert_int_equal(version(), before + 1);
    load_view();
    assert_null(log_view_writer(w.view, w.writer[1].id));
    assert_false(w.view->degraded);
}

static void hold(unsigned lane, struct log_id id)
{
    char name[16], text[LOG_ID_TEXT_MAX + 8] = "1 ";
    (void)snprintf(name, sizeof(name), "hold.%u", lane);
    (void)log_id_format(id, text + 2);
    put_field(NULL, name, text);
}

static void test_a_writer_in_doubt__stays_until_the_shards_of_both_generations_have_its_entries(void **state)
{
    struct error e = {""};
    struct removal m;
    (void)state;
    load_view();
    struct log_writer gone = *log_view_writer(w.view, w.writer[1].id);
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    must(remove_begin(&w.writer[0].roll, w.view, &gone, &m, &e), e);
    for (unsigned i = 0; i < 4; i++) { /* generation slot and lane that is not completely folded yet */
        for (unsigned k = 0; k < 4; k++) {
            struct log_id there = m.notice[k % 2];
            store_folded(k / 2, k % 2, 1, at(k == i ? just_before(there) : there));
        }
        gives(ERR_BUSY, remove_end(&w.writer[0].roll, &m, &e), e);
    }
    store_folded(1, 1, 7, at(m.notice[1])); /* a position in another stream */
    gives(ERR_BUSY, remove_end(&w.writer[0].roll, &m, &e), e);
    store_folded(1, 1, 1, at(m.notice[1]));
    put_field(NULL, "near", "3"); /* a cutover to another generation is near */
    hold(1, just_before(m.notice[1]));
    gives(ERR_BUSY, remove_end(&w.writer[0].roll, &m, &e), e);
    hold(1, m.notice[1]);
    must(remove_end(&w.writer[0].roll, &m, &e), e);
}

/* The removals may be lost with the era, so that a writer that slept would not meet them. */
static void test_a_removal__counts_under_its_era_only(void **state)
{
    struct error e = {""};
    struct removal m;
    (void)state;
    load_view();
    struct log_writer gone = *log_view_writer(w.view, w.writer[1].id);
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    must(remove_begin(&w.writer[0].roll, w.view, &gone, &m, &e), e);
    renew_era(&w.client);
    gives(ERR_FENCED, remove_begin(&w.writer[0].roll, w.view, &gone, &m, &e), e);
    renew_era(&w.client);
    roll_call();
    must(roll_register(&w.writer[1].roll, &e), e);
    load_view();
    gone = *log_view_writer(w.view, w.writer[1].id);
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    must(remove_begin(&w.writer[0].roll, w.view, &gone, &m, &e), e);
    renew_era(&w.client);
    roll_call();
    store_folded(0, 0, 1, at(m.notice[0]));
    store_folded(1, 0, 1, at(m.notice[0]));
    gives(ERR_FENCED, remove_end(&w.writer[0].roll, &m, &e), e);
}

/* If another lane stayed unchanged, a writer that sleeps could go on there, and nobody would wait for it. */
static void test_a_removal__replaces_the_lanes_that_are_as_they_were(void **state)
{
    struct error e = {""};
    struct lane second;
    (void)state;
    fail_over_with(1, 1);
    load_view();
    must(roll_lane(&w.writer[1].roll, w.view, 1, &second, &e), e);
    assert_int_equal(lanes_number(&w.home_client, "EXISTS", &second), 1);
    must(remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    load_view();
    assert_true(w.view->lane[1].number > 1);
    assert_int_equal(w.view->lane[1].era, 0);
    assert_int_equal(lanes_number(&w.home_client, "EXISTS", &second), 0);
    assert_null(log_view_writer(w.view, w.writer[1].id));
    assert_true(w.view->degraded);
}

/* A build has read the lane for the last time when its node fails over without an entry whose writer is gone.
 * Who removes that writer knows that keys may be lost, and the build does not have them: so it reads again,
 * and does not heal the filter. */
static void test_a_removal__takes_back_that_a_cutover_is_near(void **state)
{
    struct error e = {""};
    struct generation shape = w.g;
    struct nodes home;
    struct builder *b = NULL;
    char id[24];
    bool read = true;
    (void)state;
    replicate();
    roll_call();
    (void)snprintf(id, sizeof(id), "%016" PRIx64, lanes_era(&w.home_client));
    put_field(NULL, "eras", id);
    put_field(NULL, "lane_nodes", w.nodes.node[LANE_NODE].name);
    must(grace_forget(w.writer[0].link, &w.names, "", GENERATION + 1, &e), e);
    must(nodes_parse(&home, w.home.url, &e), e);
    nodes_pin(&home, &shape);
    must(builder_new(&b, w.writer[0].link, &w.names, &e), e);
    must(builder_begin(b, &shape, "", &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    must(builder_cutover(b, true, &read, &e), e);
    assert_false(read);
    must(builder_follow(b, pass_over, NULL, &e), e);
    builder_note(b);
    builder_wrote(b);
    catch_up();
    lag();
    add(&w.writer[1], 1);
    fail_over();
    answers(&w.writer[0]);
    load_view();
    must(remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    must(builder_cutover(b, true, &read, &e), e);
    assert_false(read);
    gives(ERR_LOST, builder_follow(b, pass_over, NULL, &e), e);
    assert_int_equal(taking(&w.writer[0]), 0);
    gives(ERR_LOST, builder_cutover(b, true, &read, &e), e);
    load_view();
    assert_true(w.view->degraded);
    builder_free(b);
}

/* --- a lane that is lost --- */

static void replaces(struct writer *o)
{
    struct error e = {""};
    uint64_t era;
    load_view();
    gives(ERR_LOST, roll_answer(&o->roll, w.view, 0, o->own, &era, &e), e);
    must(roll_replace_lane(&o->roll, w.view, 0, &e), e);
    load_view();
    assert_int_equal(w.view->lane[0].era, 0);
    assert_false(log_view_is_folded(w.view, &w.view->slot[0], 0) && w.view->lane[0].number == 1);
    assert_int_equal(w.view->slot[1].folded[0].position.id.ms, 0);
}

static void becomes_whole(void)
{
    uint64_t number = w.view->lane[0].number;
    assert_int_equal(taking(&w.writer[0]), 2);
    answers(&w.writer[0]);
    assert_int_equal(taking(&w.writer[0]), 1);
    roll_call();
    assert_int_equal(w.view->lane[0].number, number);
    assert_true(w.view->lane[0].era == lanes_era(&w.client));
    assert_false(w.view->degraded);
    for (unsigned i = 0; i < WRITERS; i++)
        all_are_there(&w.writer[i]);
    assert_int_equal(w.view->slot[1].folded[0].lane_number, number);
    assert_true(w.view->slot[1].folded[0].position.id.ms > 0);
    assert_int_equal(keys_of(&w.client, "*.log*"), 1); /* the closed lane is deleted */
    add(&w.writer[0], 2);
    add(&w.writer[1], 2);
}

static void test_a_lane_that_was_deleted__becomes_whole_in_another_stream(void **state)
{
    struct error e = {""};
    (void)state;
    add(&w.writer[0], 5);
    add(&w.writer[1], 600); /* more than a page */
    struct lane old = w.writer[0].lane;
    must(client_integer(&w.client, &(int64_t){0}, &e, "DEL %b", old.key.text, old.key.length), e);
    adds_as(&w.writer[0], TAIL_LOST);
    w.writer[0].sequence--;
    replaces(&w.writer[0]);
    adds_as(&w.writer[0], TAIL_LOST); /* under the former view: this does not make the lane again */
    w.writer[0].sequence--;
    becomes_whole();
}

/* A maker of the filter was about to publish it when another one did. Its lane must go: if the view were lost
 * once more, two lanes would be open. */
static void test_a_lane_that_is_replaced__leaves_no_lane_of_another_incarnation(void **state)
{
    struct error e = {""};
    (void)state;
    freeReplyObject(client_command(&w.client, "XADD tb:{f.0}:0000000000abcdee.log1 * e x"));
    freeReplyObject(client_command(&w.home_client, "XADD tb:{f.3}:0000000000abcdee.log1.closed * e x"));
    must(client_ok(&w.home_client, &e, "SET tb:{f.2.0.0}:0000000000abcdee x"), e); /* a shard */
    freeReplyObject(client_command(
        &w.home_client, "XADD tb:{f.x.0}:0000000000abcdee.log1 * e x")); /* belongs to filter f.x */
    add(&w.writer[0], 1);
    struct lane old = w.writer[0].lane;
    must(client_integer(&w.client, &(int64_t){0}, &e, "DEL %b", old.key.text, old.key.length), e);
    assert_int_equal(keys_of(&w.client, "*abcdee*"), 1);
    assert_int_equal(keys_of(&w.home_client, "*abcdee*"), 3);
    replaces(&w.writer[0]);
    assert_int_equal(keys_of(&w.client, "*abcdee*"), 0);
    assert_int_equal(keys_of(&w.home_client, "*abcdee*"), 2);
    becomes_whole();
    put_field(NULL, "incarnation", "0000000000abcdee"); /* the filter has another incarnation now */
    load_view();
    w.view->incarnation = w.names.incarnation;
    gives(ERR_FENCED, roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    put_field(NULL, "incarnation", "0000000000abcdef");
}

static void test_a_lane_that_was_flushed__becomes_whole_whoever_meets_it_first(void **state)
{
    struct error e = {""};
    (void)state;
    add(&w.writer[0], 5);
    add(&w.writer[1], 5);
    must(client_ok(&w.client, &e, "FLUSHALL"), e);
    replaces(&w.writer[1]);
    must(client_ok(&w.client, &e, "FLUSHALL"), e); /* the successor is lost before the view accepts its era */
    replaces(&w.writer[0]);
    becomes_whole();
}

/* E.g. if the last id is the highest possible: the writers keep their entries, so the lane may be closed. */
static void test_a_lane_that_is_not_lost__is_closed_first(void **state)
{
    struct error e = {""};
    (void)state;
    add(&w.writer[0], 5);
    struct lane old = w.writer[0].lane;
    load_view();
    must(roll_replace_lane(&w.writer[1].roll, w.view, 0, &e), e);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &old), 0);
    adds_as(&w.writer[0], TAIL_LOST);
    w.writer[0].sequence--;
    load_view();
    becomes_whole();
}

static void test_a_lane__is_closed_before_the_view_names_another(void **state)
{
    struct error e = {""};
    struct lane closed = w.writer[0].lane;
    (void)state;
    char *before = field("lanes");
    memcpy(closed.key.text + closed.key.length, ".closed", 7);
    closed.key.length += 7;
    load_view();
    must(client_ok(&w.home_client, &e, "ACL SETUSER default -hset"), e); /* the view cannot be changed */
    gives(ERR_REFUSED, roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    must(client_ok(&w.home_client, &e, "ACL SETUSER default +hset"), e);
    assert_string_equal(field("lanes"), before);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &w.writer[0].lane), 0);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &closed), 1); /* as long as the view names it */
    replaces(&w.writer[0]);
    roll_call();
    add(&w.writer[0], 1);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &closed), 0);
}

/* During a build the other generation says which own entries may be forgotten; when the cutover is near, the
 * hold does, too. */
static void test_own_entries__are_kept_where_a_cutover_is_near(void **state)
{
    struct writer *o = &w.writer[0];
    (void)state;
    put_field(NULL, "generation1", "");
    add(o, 5);
    struct log_id early = o->at.id;
    add(o, 5);
    store_folded(0, 0, 1, &o->at);
    hold(0, early);
    put_field(NULL, "near", "3");
    load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    put_field(NULL, "hold.0", "2 0-0"); /* a position in another stream */
    load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 0);
    add(o, 5);
    store_folded(0, 0, 1, &o->at);
    hold(0, early);
    load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    struct key_name key = view_key();
    freeReplyObject(client_command(&w.home_client, "HDEL %b near", key.text, key.length));
    load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 0);
}

/* The writer forgets what every generation has; a generation without a position has nothing. */
static void test_own_entries__are_forgotten_when_all_generations_have_them(void **state)
{
    struct writer *o = &w.writer[0];
    struct log_position early;
    char name[LOG_FOLDED_NAME_MAX];
    (void)state;
    add(o, 5);
    early = o->at;
    add(o, 5);
    store_folded(0, 0, 1, &o->at);
    load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 10); /* the other one has its first entry only */
    store_folded(1, 0, 1, &early);
    load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    store_folded(1, 0, 2, &o->at); /* a position in another stream */
    load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    log_folded_name(1, 0, name);
    struct key_name key = view_key();
    freeReplyObject(client_command(&w.home_client, "HDEL %b %s", key.text, key.length, name));
    load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    put_field(NULL, "generation1", "");
    load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 0);
}

/* A generation that is being built lacks the earlier entries, so its position is not taken over. */
static void test_positions_of_a_build__stay_in_the_stream_that_was_lost(void **state)
{
    struct error e = {""};
    char text[GENERATION_TEXT_MAX];
    (void)state;
    struct generation g = w.view->slot[1].shape;
    g.built = false;
    (void)generation_text(&g, text);
    put_field(NULL, "generation1", text);
    load_view();
    must(roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    roll_call();
    assert_true(log_view_is_folded(w.view, &w.view->slot[0], 0));
    assert_false(log_view_is_folded(w.view, &w.view->slot[1], 0));
    assert_int_equal(w.view->slot[1].folded[0].lane_number, 1);
}

static void test_a_node_that_is_away__has_nothing_switched(void **state)
{
    struct error e = {""};
    (void)state;
    char *before = field("lanes");
    load_view();
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.refuse = true});
    gives(ERR_UNREACHABLE, roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    assert_string_equal(field("lanes"), before);
    proxy_lift(w.proxy);
    add(&w.writer[0], 1); /* the lane is unchanged */
}

/* The view is another one by now, or is deleted. The lane that was made for the view is deleted. */
static void test_a_view_that_has_changed__is_not_touched(void **state)
{
    struct error e = {""};
    uint64_t era;
    unsigned missing;
    (void)state;
    struct log_view *stale = malloc(sizeof(*stale));
    load_view();
    *stale = *w.view;
    must(roll_replace_lane(&w.writer[0].roll, stale, 0, &e), e);
    char *lanes = field("lanes");
    gives(ERR_FENCED, roll_replace_lane(&w.writer[1].roll, stale, 0, &e), e);
    gives(ERR_LOST, roll_answer(&w.writer[1].roll, stale, 0, w.writer[1].own, &era, &e), e);
    load_view();
    *stale = *w.view;
    stale->lane[0].number++; /* with a lane that exists */
    struct lane there;
    struct log_position anchor;
    must(roll_lane(&w.writer[0].roll, stale, 0, &there, &e), e);
    must(lane_make(w.writer[0].link, &there, lanes_writer, 1, &anchor, &e), e);
    gives(ERR_FENCED, roll_answer(&w.writer[1].roll, stale, 0, w.writer[1].own, &era, &e), e);
    gives(ERR_FENCED, roll_take_era(&w.writer[1].roll, stale, 0, NULL, &missing, &e), e);
    put_field(NULL, "deleting", "1");
    load_view();
    gives(ERR_FENCED, roll_replace_lane(&w.writer[1].roll, w.view, 0, &e), e);
    gives(ERR_FENCED, roll_answer(&w.writer[1].roll, w.view, 0, w.writer[1].own, &era, &e), e);
    gives(ERR_FENCED, roll_take_era(&w.writer[1].roll, w.view, 0, NULL, &missing, &e), e);
    assert_string_equal(field("lanes"), lanes);
    free(stale);
}

struct rival {
    pthread_t thread;
    pthread_barrier_t *barrier;
    struct writer *writer;
    enum err code;
    struct error error;
};

static void *replace(void *arg)
{
    struct rival *o = arg;
    (void)pthread_barrier_wait(o->barrier);
    o->code = roll_replace_lane(&o->writer->roll, w.view, 0, &o->error);
    return NULL;
}

static void test_of_two_that_replace_a_lane__one_wins(void **state)
{
    enum { ROUNDS = 30 };
    unsigned late = 0;
    pthread_barrier_t barrier;
    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, WRITERS), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct rival rival[WRITERS];
        add(&w.writer[0], 1);
        load_view();
        uint64_t before = strtoull(field("version"), NULL, 10);
        for (unsigned i = 0; i < WRITERS; i++) {
            rival[i] = (struct rival){.barrier = &barrier, .writer = &w.writer[i]};
            assert_int_equal(pthread_create(&rival[i].thread, NULL, replace, &rival[i]), 0);
        }
        for (unsigned i = 0; i < WRITERS; i++)
            (void)pthread_join(rival[i].thread, NULL);
        const struct rival *loser = &rival[rival[0].code == ERR_OK];
        assert_int_equal((rival[0].code == ERR_OK) + (rival[1].code == ERR_OK), 1);
        if (loser->code != ERR_FENCED)
            fail_msg("%s: %s", error_name(loser->code), loser->error.text);
        assert_int_equal(version(), before + 1);
        struct key_name token;
        names_filter_key(&w.names, "token", &token);
        redisReply *r = client_command(&w.home_client, "GET %b", token.text, token.length);
        load_view();
        late += strtoull(r->str, NULL, 10) != w.view->lane[0].number;
        freeReplyObject(r);
        assert_int_equal(keys_of(&w.client, "*.log*"), 1);
        roll_call();
    }
    print_message("both drew a number in %u of %d rounds\n", late, ROUNDS);
    all_are_there(&w.writer[0]);
    (void)pthread_barrier_destroy(&barrier);
}

/* --- a filter that leaves a node --- */

/* Place the lanes, and the current generation's shards, on nodes. */
static void lie_on(const char *lanes, bool at_home, bool on_lane_node)
{
    struct generation *g = &w.view->slot[w.view->current].shape;
    load_view();
    g->node_count = 0;
    if (at_home)
        (void)snprintf(g->nodes[g->node_count++], NODE_NAME_MAX, "%s", w.nodes.node[NODE_HOME].name);
    if (on_lane_node)
        (void)snprintf(g->nodes[g->node_count++], NODE_NAME_MAX, "%s", w.nodes.node[LANE_NODE].name);
    log_view_format(w.view, put_field, NULL);
    put_field(NULL, "lane_nodes", lanes);
    load_view();
}

static void test_lanes__leave_nodes_that_the_generation_has_left(void **state)
{
    struct error e = {""};
    char lanes[2 * NODE_NAME_MAX + 2];
    const char *home = w.nodes.node[NODE_HOME].name;
    (void)state;
    (void)snprintf(lanes, sizeof(lanes), "%s,%s", w.nodes.node[LANE_NODE].name, home);
    add(&w.writer[0], 3);
    add(&w.writer[1], 2);
    lie_on(lanes, true, true);
    must(roll_move_lanes(&w.writer[0].roll, w.view, &e), e);
    load_view();
    assert_int_equal(w.view->lane[0].number, 1); /* the filter has shards there */
    lie_on(lanes, true, false);
    must(roll_move_lanes(&w.writer[0].roll, w.view, &e), e);
    load_view();
    assert_true(w.view->lane[0].number > 1);
    assert_int_equal(w.view->lane[0].era, 0);
    assert_string_equal(w.view->lane_node[0], home);
    assert_int_equal(w.view->lane[1].number, 1);
    assert_string_equal(w.view->lane_node[1], home);
    assert_int_equal(keys_of(&w.client, "*"), 0);
    assert_int_equal(taking(&w.writer[0]), 2);
    roll_call();
    for (unsigned i = 0; i < WRITERS; i++) {
        all_are_there(&w.writer[i]);
        add(&w.writer[i], 2);
    }
    uint64_t number = w.view->lane[0].number;
    must(roll_move_lanes(&w.writer[1].roll, w.view, &e), e);
    load_view();
    assert_int_equal(w.view->lane[0].number, number);
}

#define ROLL_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROLL_TEST(test_a_writer__registers_once_and_leaves),
        ROLL_TEST(test_register__is_refused_where_nobody_may_add),
        ROLL_TEST(test_the_first_replica__is_routine),
        ROLL_TEST(test_what_a_failover_lost__is_in_the_lane_again),
        ROLL_TEST(test_positions__go_back_to_the_first_entry),
        ROLL_TEST(test_positions__never_go_up),
        ROLL_TEST(test_positions__do_not_go_up_where_no_era_is_accepted),
        ROLL_TEST(test_a_writer_without_room__degrades_the_filter),
        ROLL_TEST(test_a_writer_that_sleeps__is_waited_for),
        ROLL_TEST(test_a_page_of_entries__is_not_all),
        ROLL_TEST(test_an_era_that_changes_again__is_answered_again),
        ROLL_TEST(test_an_answer__does_not_stay_where_the_view_has_the_era),
        ROLL_TEST(test_what_is_met_under_an_era_that_was_left__is_not_acknowledged),
        ROLL_TEST(test_a_clock_that_is_behind__does_not_hide_what_was_appended),
        ROLL_TEST(test_a_broken_connection__only_has_it_repeated),
        ROLL_TEST(test_to_leave__ends_one_registration_only),
        ROLL_TEST(test_a_view__says_of_all_writers_that_they_have_left),
        ROLL_TEST(test_who_is_not_registered__cannot_answer),
        ROLL_TEST(test_a_node_that_is_no_master__is_waited_for),
        ROLL_TEST(test_scripts__run_at_maxmemory),
        ROLL_TEST(test_a_roll_call_of_two__takes_milliseconds),
        ROLL_TEST(test_a_writer_that_is_gone__is_removed_and_the_filter_degraded),
        cmocka_unit_test_setup_teardown(test_a_removal__takes_back_that_a_cutover_is_near, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_removal__replaces_the_lanes_that_are_as_they_were,
                                        set_up_two_lanes, tear_down),
        ROLL_TEST(test_a_lane_that_was_deleted__becomes_whole_in_another_stream),
        ROLL_TEST(test_a_writer_in_doubt__registers_again_or_is_removed),
        cmocka_unit_test_setup_teardown(
            test_a_writer_in_doubt__stays_until_the_shards_of_both_generations_have_its_entries,
            set_up_two_lanes, tear_down),
        ROLL_TEST(test_a_removal__counts_under_its_era_only),
        ROLL_TEST(test_a_lane_that_is_replaced__leaves_no_lane_of_another_incarnation),
        ROLL_TEST(test_a_lane_that_was_flushed__becomes_whole_whoever_meets_it_first),
        ROLL_TEST(test_a_lane_that_is_not_lost__is_closed_first),
        ROLL_TEST(test_a_lane__is_closed_before_the_view_names_another),
        ROLL_TEST(test_own_entries__are_kept_where_a_cutover_is_near),
        ROLL_TEST(test_own_entries__are_forgotten_when_all_generations_have_them),
        ROLL_TEST(test_positions_of_a_build__stay_in_the_stream_that_was_lost),
        ROLL_TEST(test_a_node_that_is_away__has_nothing_switched),
        ROLL_TEST(test_a_view_that_has_changed__is_not_touched),
        ROLL_TEST(test_of_two_that_replace_a_lane__one_wins),
        cmocka_unit_test_setup_teardown(test_lanes__leave_nodes_that_the_generation_has_left,
                                        set_up_two_lanes, tear_down),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
