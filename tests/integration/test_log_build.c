/* SPDX-License-Identifier: MIT */
/* Builds of a filter that is a log, on real servers: keys that are added meanwhile, builders that stop, sleep
 * and wake up, lanes that are lost. */
#include "tests/integration/log_builds.h"
#include "tests/integration/lane_append.h"
#include "tests/integration/cut_over.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/filter/block.h"
#include "shard/view/shards.h"
#include "tests/lib/proxy.h"
enum {
    ROWS = 8000,
    OTHERS = 1000000, /* the first key without a row */
    POLL_US = 60000   /* after which a build calls its poll again */
};

#define LOG_TEST(test) cmocka_unit_test_setup_teardown(test, log_setup, log_teardown)
#define SPILLED_TOO(test)                                                                                    \
    LOG_TEST(test),                                                                                          \
    {                                                                                                        \
#test " (spilled)", test, log_setup, log_teardown, spilled                                           \
    }

static char spilled[] = "spilled";
static struct log_process a, b;

static uint64_t memory_of(void **state)
{
    return *state == spilled ? LOG_SPILLS : UINT64_MAX;
}

static int log_teardown(void **state)
{
    (void)state;
    log_close(&a);
    log_close(&b);
    return 0;
}

/* --- beside adds --- */

/* A thread that adds entries of ENTRY keys. */
struct adder {
    pthread_t thread;
    struct lane lane;
    struct log_position at;
    uint8_t writer[LOG_WRITER_BYTES];
    atomic_uint_least64_t next; /* keys below it are acknowledged */
    atomic_uint_least64_t
        most; /* the thread waits there: with more keys the shards would be full, and all keys present */
    atomic_bool stop, failed;
};

enum { ENTRY = 20, AHEAD = 1000 };

static void *add_until_stopped(void *arg)
{
    struct adder *t = arg;
    struct sync_client *l = sync_client_new(&log_servers.nodes, SYNC_CLIENT_MS, NULL);
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct key_hash keys[ENTRY];
    struct error e = {""};
    enum tail_state tail = TAIL_COMPLETE;
    while (!atomic_load(&t->stop) && !atomic_load(&t->failed)) {
        uint64_t next = atomic_load(&t->next);
        if (next >= atomic_load(&t->most)) {
            clock_sleep_us(100);
            continue;
        }
        for (unsigned i = 0; i < ENTRY; i++)
            keys[i] = log_key(next + i);
        size_t length = log_entry_encode(bytes, t->writer, next, keys, ENTRY);
        enum err code = lane_append(l, &t->lane, &t->at, bytes, length, log_pass_over, NULL, &tail, &e);
        atomic_store(&t->failed, code != ERR_OK || tail != TAIL_COMPLETE);
        atomic_store(&t->next, next + ENTRY);
    }
    sync_client_free(l);
    return NULL;
}

static void start_adding(struct adder *t)
{
    memset(t, 0, sizeof(*t));
    memset(t->writer, 3, sizeof(t->writer));
    atomic_store(&t->next, OTHERS);
    atomic_store(&t->most, OTHERS + AHEAD);
    log_lane(&t->lane, &t->at);
    assert_int_equal(pthread_create(&t->thread, NULL, add_until_stopped, t), 0);
}

/* Wait until the thread has added @count more keys. */
static void wait_for_keys(struct adder *t, unsigned count)
{
    uint64_t upto = atomic_load(&t->next) + count; /* each append has a deadline */
    atomic_store(&t->most, upto + AHEAD);
    while (atomic_load(&t->next) < upto && !atomic_load(&t->failed))
        clock_sleep_us(1000);
}

/* Stop. The keys from OTHERS to the returned one are acknowledged. */
static uint64_t stop_adding(struct adder *t)
{
    atomic_store(&t->stop, true);
    (void)pthread_join(t->thread, NULL);
    assert_false(atomic_load(&t->failed));
    return atomic_load(&t->next);
}

static enum err follow(void *arg, struct error *e)
{
    struct log_process *p = arg;
    return build_follow(p->build, e);
}

struct half {
    struct build *build;
    unsigned writer;
    atomic_bool failed;
};

/* A thread that puts every other row. */
static void *put_half(void *arg)
{
    struct half *h = arg;
    struct error e = {""};
    for (uint64_t i = h->writer; i < ROWS; i += 2) {
        build_put(h->build, h->writer, log_key(i));
        if (i % LOG_PAGE == h->writer && build_page_end(h->build, h->writer, &e) != ERR_OK)
            atomic_store(&h->failed, true);
    }
    if (build_page_end(h->build, h->writer, &e) != ERR_OK)
        atomic_store(&h->failed, true);
    return NULL;
}

static void test_build__has_rows_and_all_that_is_added_meanwhile(void **state)
{
    struct adder *t = calloc(1, sizeof(*t));
    pthread_t thread[2];
    assert_non_null(t);
    start_adding(t);
    wait_for_keys(t, 200);
    log_begin(&a, memory_of(state));
    log_bits(&a, memory_of(state), follow, &a);
    uint64_t first = atomic_load(&t->next) + ENTRY; /* the entry under way may be before S0 */
    struct half half[2] = {{.build = a.build}, {.build = a.build, .writer = 1}};
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, put_half, &half[i]), 0);
    log_checkpoint(&a, "some");
    for (unsigned i = 0; i < 2; i++) {
        (void)pthread_join(thread[i], NULL);
        assert_false(atomic_load(&half[i].failed));
    }
    wait_for_keys(t, 500);
    log_checkpoint(&a, "more");
    wait_for_keys(t, 500);
    log_cuts_over(&a);
    wait_for_keys(t, 100);
    uint64_t last = stop_adding(t);
    assert_true(last - first > 1000);
    assert_int_equal(log_missing(0, ROWS), 0);
    assert_int_equal(log_missing(first, last), 0);
    assert_true(log_missing(OTHERS - 2000, OTHERS) > 1800);
    free(t);
}

/* Exactly the bits of its keys are set. */
static void test_build__writes_the_bits_of_its_keys(void **state)
{
    log_begin(&a, memory_of(state));
    log_rows(&a, 0, ROWS / 2);
    log_add(OTHERS, 100);
    log_checkpoint(&a, "");
    log_rows(&a, ROWS / 2, ROWS);
    log_cuts_over(&a);
    const struct generation *g = &log_stored()->slot[log_stored()->current].shape;
    const struct geometry *shape = &g->layers[0].geometry;
    uint32_t bytes = geometry_shard_bytes(shape), head = header_bytes(shape);
    uint8_t *expected = calloc(shape->shards, bytes);
    assert_non_null(expected);
    for (uint32_t s = 0; s < shape->shards; s++)
        block_fill(shape, a.builder->fold.tag, expected + (size_t)s * bytes);
    for (uint64_t i = 0; i < ROWS + 100; i++) {
        struct key_place place;
        hash_place(shape, hash_mix(log_key(i < ROWS ? i : OTHERS + i - ROWS), g->seed), &place);
        (void)block_set(shape, &place, expected + (size_t)place.shard * bytes);
    }
    for (uint32_t s = 0; s < shape->shards; s++) {
        struct key_name key;
        names_log_shard(&log_names, (struct shard_id){g->number, 0, s}, &key);
        redisReply *r = servers_command(&log_servers, s % 2, "GET %b", key.text, key.length);
        assert_int_equal(r->type, REDIS_REPLY_STRING);
        assert_int_equal(r->len, head + bytes);
        assert_memory_equal(r->str + head, expected + (size_t)s * bytes, bytes);
        freeReplyObject(r);
    }
    free(expected);
}

/* --- builders that stop, sleep and wake --- */

static void test_resume__goes_on_from_the_record(void **state)
{
    char rows[32];
    log_begin(&a, memory_of(state));
    log_rows(&a, 0, ROWS / 2);
    log_add(OTHERS, 100);
    log_checkpoint(&a, "half");
    log_add(OTHERS + 100, 100);
    log_close(&a);
    assert_false(log_resumes(&b, rows));
    assert_string_equal(rows, "half");
    log_bits(&b, memory_of(state), NULL, NULL);
    log_rows(&b, ROWS / 2, ROWS);
    log_cuts_over(&b);
    assert_int_equal(log_missing(0, ROWS), 0);
    assert_int_equal(log_missing(OTHERS, OTHERS + 200), 0);
}

static void test_build__of_one_that_slept_writes_nothing(void **state)
{
    struct error e = {""};
    char rows[32];
    log_begin(&a, memory_of(state));
    log_rows(&a, 0, ROWS / 2);
    log_checkpoint(&a, "half");
    assert_false(log_resumes(&b, rows));
    log_bits(&b, memory_of(state), NULL, NULL);
    log_rows(&b, ROWS / 2, ROWS);
    log_checkpoint(&b, "all");
    log_rows(&a, OTHERS, OTHERS + 2000);
    gives(ERR_FENCED, build_checkpoint(a.build, "zombie", 6, &e), e);
    gives(ERR_FENCED, builder_record(a.builder, "zombie", 6, &e), e);
    gives(ERR_FENCED, cut_over(a.builder, false, &e), e);
    gives(ERR_FENCED, builder_start(a.builder, &e), e);
    assert_true(log_missing_in(&b.builder->shape, OTHERS, OTHERS + 2000) > 1800);
    log_cuts_over(&b);
    assert_int_equal(log_missing(0, ROWS), 0);
}

/* Nothing was recorded: the build starts from S0, with all rows. */
static void test_resume__without_a_record_begins_anew(void **state)
{
    char rows[32];
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_add(OTHERS, 100);
    log_rows(&a, 0, ROWS);
    log_close(&a);
    assert_true(log_resumes(&b, rows));
    assert_string_equal(rows, "");
    log_starts(&b, UINT64_MAX);
    log_rows(&b, 0, ROWS);
    log_cuts_over(&b);
    assert_int_equal(log_missing(0, ROWS), 0);
}

/* The builder stopped between entering the view and making its shards. */
static void test_resume__makes_the_shards_that_are_missing(void **state)
{
    struct error e = {""};
    struct generation shape = log_shape();
    char rows[32];
    (void)state;
    log_open(&a, &log_servers.nodes);
    must(builder_begin(a.builder, &shape, "", &e), e);
    log_close(&a);
    assert_true(log_resumes(&b, rows));
    log_starts(&b, UINT64_MAX);
    log_rows(&b, 0, ROWS);
    log_cuts_over(&b);
    assert_int_equal(log_missing(0, ROWS), 0);
}

/* The first builder slept while it made the shards. Another one has built and cut over, and then a shard is
 * lost. The first one's late requests do not replace existing shards; they make the lost one, but nobody
 * takes it for a valid shard. */
static void test_start__of_one_that_slept_makes_nothing_that_counts(void **state)
{
    struct error e = {""};
    struct key_name key;
    uint64_t later;
    char rows[32];
    (void)state;
    log_begin(&a, UINT64_MAX);
    const struct writer_token slept = a.builder->fold.token;
    assert_true(log_resumes(&b, rows));
    log_starts(&b, UINT64_MAX);
    log_rows(&b, 0, ROWS);
    log_cuts_over(&b);
    gives(ERR_FENCED, builder_record(b.builder, "late", 4, &e),
          e); /* nobody would let go of the lanes again */
    struct generation g = b.builder->shape;
    uint32_t shards = g.layers[0].geometry.shards;
    gives(ERR_FENCED, shards_make(a.link, &log_names, &g, 0, slept, &later, NULL, &e), e);
    assert_int_equal(later, b.builder->fold.token.number);
    assert_int_equal(log_missing(0, ROWS), 0);
    names_log_shard(&log_names, (struct shard_id){g.number, 0, 0}, &key);
    assert_int_equal(servers_integer(&log_servers, 0, "DEL %b", key.text, key.length), 1);
    g.layers[0].geometry.shards = 1;
    must(shards_make(a.link, &log_names, &g, 0, slept, &later, NULL, &e), e);
    assert_int_equal(log_count_shards(&log_stored()->slot[log_stored()->current].shape), shards - 1);
}

/* A view that nobody builds names an empty token, as who has drawn none has one. */
static void test_start__of_one_that_has_drawn_no_token_makes_nothing(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_set_field("deleting", "1");
    gives(ERR_FENCED, builder_start(a.builder, &e), e); /* nor does one whose filter is being deleted */
    assert_int_equal(log_count_shards(&a.builder->shape), 0);
    log_set_field(a.builder->shape.number % 2 == 0 ? "token0" : "token1", "0 0000000000000000");
    a.builder->fold.token = (struct writer_token){.number = 0};
    log_set_field("deleting", "0");
    gives(ERR_FENCED, builder_start(a.builder, &e), e);
    assert_true(a.builder->anew);
}

/* A builder that takes over and stops again must not leave an empty shard to the record. */
static void test_resume__begins_anew_where_a_shard_was_lost(void **state)
{
    struct key_name key;
    char rows[32];
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "all");
    names_log_shard(&log_names, (struct shard_id){a.builder->shape.number, 0, 1}, &key);
    assert_int_equal(servers_integer(&log_servers, 1, "DEL %b", key.text, key.length), 1);
    for (unsigned i = 0; i < 3; i++) { /* the second builder gets so far that it makes the shard */
        assert_true(log_resumes(&b, rows));
        if (i == 1)
            log_starts(&b, UINT64_MAX);
        log_close(&b);
    }
    assert_true(log_resumes(&b, rows));
    log_starts(&b, UINT64_MAX);
    log_rows(&b, 0, ROWS);
    log_cuts_over(&b);
    assert_int_equal(log_missing(0, ROWS), 0);
}

/* The other key is not replaced, so this generation cannot be built, but another one can. */
static void test_resume__begins_anew_where_something_else_has_a_shards_name(void **state)
{
    struct error e = {""};
    struct generation shape = log_shape();
    struct key_name key;
    char rows[32];
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "all");
    names_log_shard(&log_names, (struct shard_id){a.builder->shape.number, 0, 1}, &key);
    assert_int_equal(servers_integer(&log_servers, 1, "DEL %b", key.text, key.length), 1);
    assert_int_equal(servers_integer(&log_servers, 1, "RPUSH %b theirs", key.text, key.length), 1);
    log_rows(&a, ROWS, 2 * ROWS);
    gives(ERR_WRONG_TYPE, build_cutover(a.build, false, &e), e);
    assert_true(a.builder->anew);
    assert_true(log_resumes(&b, rows));
    gives(ERR_WRONG_TYPE, builder_start(b.builder, &e), e);
    assert_non_null(strstr(e.text, key.text));
    must(grace_forget(b.link, &log_names, "", b.builder->shape.number, &e), e);
    log_close(&b);
    log_open(&b, &log_servers.nodes);
    must(builder_begin(b.builder, &shape, "", &e), e);
    log_starts(&b, UINT64_MAX);
    log_rows(&b, 0, ROWS);
    log_cuts_over(&b);
    assert_int_equal(log_missing(0, ROWS), 0);
    assert_int_equal(servers_integer(&log_servers, 1, "LLEN %b", key.text, key.length), 1);
}

struct stopper {
    bool stop;
};

static enum err stop_if_told(void *arg, struct error *e)
{
    const struct stopper *s = arg;
    return s->stop ? error_set(e, ERR_CANCELLED, "stop") : ERR_OK;
}

/* A flush that was interrupted is not in the record. */
static void test_checkpoint__records_nothing_that_was_not_written(void **state)
{
    struct error e = {""};
    struct stopper stopper = {false};
    char rows[32];
    log_begin(&a, memory_of(state));
    log_bits(&a, memory_of(state), stop_if_told, &stopper);
    log_rows(&a, 0, ROWS / 2);
    log_checkpoint(&a, "half");
    log_rows(&a, ROWS / 2, ROWS);
    log_add(OTHERS, 100);
    stopper.stop = true;
    clock_sleep_us(POLL_US);
    gives(ERR_CANCELLED, build_checkpoint(a.build, "all", 3, &e), e);
    log_close(&a);
    assert_false(log_resumes(&b, rows));
    assert_string_equal(rows, "half");
    log_bits(&b, memory_of(state), NULL, NULL);
    log_rows(&b, ROWS / 2, ROWS);
    log_cuts_over(&b);
    assert_int_equal(log_missing(0, ROWS), 0);
    assert_int_equal(log_missing(OTHERS, OTHERS + 100), 0);
}

/* Entries after builder_note() are not in the shards. */
static void test_record__is_of_what_was_noted(void **state)
{
    struct error e = {""};
    char rows[32];
    log_begin(&a, memory_of(state));
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "all");
    log_add(OTHERS, 100);
    must(build_follow(a.build, &e), e);
    must(builder_record(a.builder, "again", 5, &e), e);
    log_close(&a);
    assert_false(log_resumes(&b, rows));
    assert_string_equal(rows, "again");
    log_bits(&b, memory_of(state), NULL, NULL);
    log_cuts_over(&b);
    assert_int_equal(log_missing(OTHERS, OTHERS + 100), 0);
}

static void test_cutover__stores_what_was_noted(void **state)
{
    struct error e = {""};
    log_begin(&a, memory_of(state));
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "all");
    log_add(OTHERS, 100);
    must(build_follow(a.build, &e), e);
    must(cut_over(a.builder, false, &e), e);
    assert_int_equal(log_missing(0, ROWS), 0);
    assert_int_equal(log_missing(OTHERS, OTHERS + 100), 0);
}

/* As above without a resume: the next flush writes the keys of the interrupted one. */
static void test_checkpoint__may_be_repeated(void **state)
{
    struct error e = {""};
    struct stopper stopper = {true};
    log_begin(&a, memory_of(state));
    log_bits(&a, memory_of(state), stop_if_told, &stopper);
    log_rows(&a, 0, ROWS);
    log_add(OTHERS, 100);
    gives(ERR_CANCELLED, build_checkpoint(a.build, "all", 3, &e), e);
    stopper.stop = false;
    log_checkpoint(&a, "all");
    log_cuts_over(&a);
    assert_int_equal(log_missing(0, ROWS), 0);
    assert_int_equal(log_missing(OTHERS, OTHERS + 100), 0);
}

/* The next bitmaps begin at the position of the shards, not where the earlier ones had read the lanes. */
static void test_build__goes_on_with_what_another_had_not_written(void **state)
{
    struct error e = {""};
    struct stopper stopper = {false};
    log_begin(&a, memory_of(state));
    log_bits(&a, memory_of(state), stop_if_told, &stopper);
    log_rows(&a, 0, ROWS);
    log_add(OTHERS, 100);
    log_checkpoint(&a, "all");
    log_add(OTHERS + 100, 100);
    stopper.stop = true;
    clock_sleep_us(POLL_US);
    gives(ERR_CANCELLED, build_cutover(a.build, false, &e), e);
    stopper.stop = false;
    log_bits(&a, memory_of(state), NULL, NULL);
    log_cuts_over(&a);
    assert_int_equal(log_missing(0, ROWS), 0);
    assert_int_equal(log_missing(OTHERS, OTHERS + 200), 0);
}

/* The servers, each behind a proxy, for a build. */
struct proxied {
    struct proxy *proxy;
    struct nodes nodes;
    unsigned route[SERVERS_MAX];
};

static void begin_by_proxy(struct proxied *x, struct log_process *p)
{
    struct error e = {""};
    char list[128] = "";
    uint16_t port;
    struct generation shape = log_shape();
    must(proxy_start(&x->proxy, &e), e);
    proxy_count_as_job(x->proxy, "*");
    for (unsigned i = 0; i < log_servers.count; i++) {
        must(proxy_add(x->proxy, WIRE_REDIS, log_servers.redis[i].port, &x->route[i], &port, &e), e);
        size_t n = strlen(list);
        (void)snprintf(list + n, sizeof(list) - n, "%sredis://127.0.0.1:%u", i == 0 ? "" : ",", port);
    }
    must(nodes_parse(&x->nodes, list, &e), e);
    nodes_pin(&x->nodes, &shape);
    log_open(p, &x->nodes);
    must(builder_begin(p->builder, &shape, "", &e), e);
}

static void end_proxy(struct proxied *x, struct log_process *p)
{
    log_close(p);
    proxy_stop(x->proxy);
}

/* Requests that were sent before a connection broke may be executed later: their old token is refused. */
static void test_checkpoint__takes_over_after_a_broken_connection(void **state)
{
    static struct proxied x;
    struct error e = {""};
    begin_by_proxy(&x, &a);
    must(builder_start(a.builder, &e), e);
    log_bits(&a, memory_of(state), NULL, NULL);
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "rows");
    uint64_t token = a.builder->fold.token.number;
    log_rows(&a, ROWS, 2 * ROWS);
    proxy_set(x.proxy, x.route[1], &(struct proxy_fault){.resets = 1});
    gives(ERR_UNREACHABLE, build_checkpoint(a.build, "more", 4, &e), e);
    assert_false(a.builder->took_over);
    proxy_lift(x.proxy);
    log_checkpoint(&a, "more");
    assert_true(a.builder->fold.token.number > token);
    log_cuts_over(&a);
    struct generation g = a.builder->shape;
    nodes_pin(&log_servers.nodes, &g); /* the same servers without the proxy */
    assert_int_equal(log_missing_in(&g, 0, 2 * ROWS), 0);
    end_proxy(&x, &a);
}

struct starter {
    enum err code;
    struct error e;
};

static void *start_in_thread(void *arg)
{
    struct starter *s = arg;
    s->code = builder_start(a.builder, &s->e);
    return NULL;
}

/* The build, or the whole filter, is deleted while its shards are made: shards that are made later do not
 * stay. */
static void starts_while_it_goes(void (*go)(struct sync_client *l))
{
    static struct proxied x;
    struct starter starter = {ERR_OK, {""}};
    pthread_t thread;
    struct sync_client *l = sync_client_new(&log_servers.nodes, SYNC_CLIENT_MS, NULL);
    begin_by_proxy(&x, &a);
    proxy_count_only(x.proxy, "}:token"); /* behind a look at the registries */
    proxy_count(x.proxy, "", 1, PROXY_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, start_in_thread, &starter), 0);
    assert_true(proxy_await_held(x.proxy, SYNC_CLIENT_MS));
    proxy_set(x.proxy, x.route[1], &(struct proxy_fault){.swallow = true});
    proxy_release(x.proxy, true);
    uint64_t deadline = clock_mono_us() + SYNC_CLIENT_MS * 1000;
    while (log_count_keys(".3.*") == 0 && clock_mono_us() < deadline)
        clock_sleep_us(1000);
    assert_true(log_count_keys(".3.*") > 0); /* the shards of the other node */
    go(l);
    proxy_lift(x.proxy);
    (void)pthread_join(thread, NULL);
    gives(ERR_FENCED, starter.code, starter.e);
    assert_int_equal(log_count_keys(".3.*"), 0);
    sync_client_free(l);
    end_proxy(&x, &a);
}

static void forget_build(struct sync_client *l)
{
    struct error e = {""};
    must(grace_forget(l, &log_names, "", a.builder->shape.number, &e), e);
    struct generation g = a.builder->shape;
    nodes_pin(&log_servers.nodes, &g);
    must(shards_remove(l, &log_names, &g, NULL, &e), e);
}

static void test_start__leaves_no_shard_of_what_was_forgotten(void **state)
{
    (void)state;
    starts_while_it_goes(forget_build);
}

static void delete_filter(struct sync_client *l)
{
    struct key_name key;
    names_filter_key(&log_names, "view", &key);
    forget_build(l);
    assert_int_equal(servers_integer(&log_servers, 0, "DEL %b", key.text, key.length), 1);
}

static void test_start__leaves_no_shard_of_what_was_deleted(void **state)
{
    (void)state;
    starts_while_it_goes(delete_filter);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        SPILLED_TOO(test_build__has_rows_and_all_that_is_added_meanwhile),
        SPILLED_TOO(test_build__writes_the_bits_of_its_keys),
        SPILLED_TOO(test_resume__goes_on_from_the_record),
        SPILLED_TOO(test_build__of_one_that_slept_writes_nothing),
        LOG_TEST(test_resume__without_a_record_begins_anew),
        LOG_TEST(test_resume__makes_the_shards_that_are_missing),
        LOG_TEST(test_start__of_one_that_slept_makes_nothing_that_counts),
        LOG_TEST(test_start__of_one_that_has_drawn_no_token_makes_nothing),
        LOG_TEST(test_resume__begins_anew_where_a_shard_was_lost),
        LOG_TEST(test_resume__begins_anew_where_something_else_has_a_shards_name),
        SPILLED_TOO(test_checkpoint__records_nothing_that_was_not_written),
        SPILLED_TOO(test_record__is_of_what_was_noted),
        SPILLED_TOO(test_cutover__stores_what_was_noted),
        SPILLED_TOO(test_checkpoint__may_be_repeated),
        SPILLED_TOO(test_build__goes_on_with_what_another_had_not_written),
    };
    const struct CMUnitTest single[] = {
        SPILLED_TOO(test_checkpoint__takes_over_after_a_broken_connection),
        LOG_TEST(test_start__leaves_no_shard_of_what_was_forgotten),
        LOG_TEST(test_start__leaves_no_shard_of_what_was_deleted),
    };
    int failed = cmocka_run_group_tests_name("log build", all, log_start, log_stop);
    if (getenv("TWINBLOOM_TEST_CLUSTER") == NULL) /* one server, behind a proxy */
        failed += cmocka_run_group_tests_name("log build, one server", single, log_start, log_stop);
    return failed;
}
