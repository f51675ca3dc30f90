/* SPDX-License-Identifier: MIT */
/* Builds by one thread: what a flush brings, and what it does not forget. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/integration/builds.h"

enum { SHARDS = 30, KEYS = 3000, FEW = 4 * BUILDS_SHARD_BYTES };

static struct servers servers;
static struct filter f;
static char directory[PATH_MAX];
static struct build *b;

static int start(void **state)
{
    (void)state;
    struct error e = {""};
    must(process_make_directory(directory, "build", &e), e);
    return servers_start(&servers, 2);
}

static int stop(void **state)
{
    (void)state;
    assert_int_equal(rmdir(directory), 0);
    return servers_stop(&servers);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    build_free(b);
    b = NULL;
    filter_fini(&f);
    return 0;
}

static void make(struct build_options o)
{
    struct error e = {""};
    build_free(b);
    b = NULL;
    must(build_new(&b, &o, &e), e);
}

/* All tests run twice: in memory, and with hashes spilled for eight ranges of shards. */
static struct build_options options(void **state)
{
    struct build_options o = builds_options(&f, directory);
    if (*state != NULL)
        o.memory = FEW;
    return o;
}

static void flush(void)
{
    struct error e = {""};
    must(build_flush(b, &e), e);
}

static void flush_gives(enum err code)
{
    struct error e = {""};
    gives(code, build_flush(b, &e), e);
}

/* The node does not answer to what was sent, or not to the greeting of a connection. */
static void flush_in_vain(void)
{
    struct error e = {""};
    enum err code = build_flush(b, &e);
    assert_true(code == ERR_TIMEOUT || code == ERR_UNREACHABLE);
}

static void add_count(void *arg, uint32_t shard, uint64_t n)
{
    uint64_t *counts = arg;
    assert_true(shard < SHARDS && n > 0);
    counts[shard] += n;
}

static uint64_t take_counts(void)
{
    uint64_t counts[SHARDS] = {0}, sum = 0;
    build_take_counts(b, add_count, counts);
    for (unsigned i = 0; i < SHARDS; i++)
        sum += counts[i];
    return sum;
}

/* --- what a flush brings --- */

static void test_build_flush__brings_all_keys_of_ended_pages(void **state)
{
    make(options(state));
    assert_int_equal(build_partitions(b), *state == NULL ? 1 : 8);
    long long home = servers_integer(&servers, 0, "DBSIZE"), other = servers_integer(&servers, 1, "DBSIZE");
    (void)filter_add(&f, view_current(&f.view), KEYS, 300); /* callers, during the scan */
    builds_put(&f, b, 0, 0, KEYS);
    flush();
    builds_all_there(&f, 0, KEYS + 300);
    assert_in_range(filter_check(&f, view_current(&f.view), 100000, 1000), 0, 50);
    filter_all_are(&f, view_current(&f.view), 1, "shard");
    for (unsigned i = 0; i < 5; i++) {
        builds_put(&f, b, 0, 10000 + 100 * i, 100);
        flush();
    }
    builds_all_there(&f, 10000, 500);
    assert_int_equal(servers_integer(&servers, 0, "DBSIZE"), home);
    assert_int_equal(servers_integer(&servers, 1, "DBSIZE"), other);
}

static void test_build_flush__of_nothing_does_nothing(void **state)
{
    make(options(state));
    flush();
    builds_put(&f, b, 0, 0, KEYS);
    flush();
    for (uint32_t i = 0; i < SHARDS; i++)
        builds_lose(&f, i);
    flush(); /* else ERR_LOST */
    assert_int_equal(build_spilled_bytes(b), 0);
}

static void test_build_flush__follows_the_view(void **state)
{
    make(options(state));
    builds_put(&f, b, 0, 0, KEYS / 2);
    flush();
    filter_open(&f, 2, true); /* the epoch is another one */
    builds_put(&f, b, 0, KEYS / 2, KEYS / 2);
    flush();
    builds_all_there(&f, 0, KEYS);
}

static void test_build_take_counts__counts_new_keys_by_shard(void **state)
{
    make(options(state));
    uint64_t expected[SHARDS] = {0}, counts[SHARDS] = {0};
    for (unsigned i = 0; i < 200; i++) {
        struct key_place place;
        hash_place(&view_current(&f.view)->layers[0].geometry, builds_hash(&f, i), &place);
        expected[place.shard]++;
    }
    builds_put(&f, b, 0, 0, 200);
    builds_put(&f, b, 0, 0, 200); /* again: no key is new */
    assert_int_equal(build_pending(b), *state == NULL ? 200 : 400);
    flush();
    assert_int_equal(build_pending(b), 200);
    build_take_counts(b, add_count, counts);
    assert_memory_equal(counts, expected, sizeof(counts));
    assert_int_equal(build_pending(b), 0);
    assert_int_equal(take_counts(), 0);
    builds_put(&f, b, 0, 1000, 1);
    flush();
    assert_int_equal(take_counts(), 1);
}

/* --- what it does not forget --- */

static void stop_node(void)
{
    process_signal(&servers.redis[1].process, SIGSTOP);
    clock_sleep_us(50 * 1000); /* until it has happened */
}

static void test_build_flush__forgets_nothing_where_redis_does_not_answer(void **state)
{
    make(options(state));
    link_free(f.fence.link);
    f.fence.link = link_new(&servers.nodes, 500, NULL);
    builds_all_there(&f, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        builds_put(&f, b, 0, i * 1000, 1000);
        stop_node();
        flush_in_vain();
        builds_put(&f, b, 0, i * 1000 + 500, 500); /* half of them again */
        flush_in_vain();
        process_signal(&servers.redis[1].process, SIGCONT);
        flush();
        builds_all_there(&f, 0, (i + 1) * 1000);
    }
    (void)take_counts();
    assert_int_equal(build_pending(b), 0);
}

static void test_build_flush__forgets_nothing_where_a_shard_is_lost(void **state)
{
    make(options(state));
    for (uint32_t lost = 0; lost < SHARDS; lost += 7) {
        builds_put(&f, b, 0, lost * 1000, 1000);
        builds_lose(&f, lost);
        flush_gives(ERR_LOST);
        builds_put(&f, b, 0, lost * 1000 + 1000, 10);
        flush_gives(ERR_LOST);
        builds_find(&f, lost);
        flush();
        builds_all_there(&f, lost * 1000, 1010);
    }
}

static void test_build_flush__forgets_nothing_where_redis_refuses(void **state)
{
    make(options(state));
    builds_put(&f, b, 0, 0, KEYS);
    assert_string_equal(servers_text(&servers, 1, "CONFIG SET maxmemory 1"), "OK");
    flush_gives(ERR_REFUSED);
    assert_string_equal(servers_text(&servers, 1, "CONFIG SET maxmemory 0"), "OK");
    flush();
    builds_all_there(&f, 0, KEYS);
}

static void *let_go_on(void *arg)
{
    (void)arg;
    clock_sleep_us(150 * 1000);
    process_signal(&servers.redis[1].process, SIGCONT);
    return NULL;
}

/* Called once at the beginning; what it does then takes so long that it is called once more in the middle,
 * where it wants to stop. */
struct interruption {
    unsigned calls;
    pthread_t thread;
};

static enum err interrupt(void *arg, struct error *e)
{
    struct interruption *i = arg;
    uint64_t lost;
    switch (++i->calls) {
    case 1:
        stop_node();
        assert_int_equal(pthread_create(&i->thread, NULL, let_go_on, NULL), 0);
        return ERR_OK;
    case 2: /* the link must be free for whoever is asked */
        must(fence_count_lost(&f.fence, &f.view, view_current(&f.view), &lost, e), *e);
        assert_int_equal(lost, 0);
        return error_set(e, ERR_CANCELLED, "stop");
    default:
        return ERR_OK;
    }
}

static void test_build_flush__forgets_nothing_where_it_is_stopped(void **state)
{
    struct build_options o = options(state);
    struct interruption i = {0};
    o.poll = interrupt;
    o.poll_arg = &i;
    make(o);
    builds_put(&f, b, 0, 0, KEYS);
    flush_gives(ERR_CANCELLED);
    assert_int_equal(pthread_join(i.thread, NULL), 0);
    assert_int_equal(i.calls, 2);
    assert_true(filter_check(&f, view_current(&f.view), 0, KEYS) < KEYS);
    builds_put(&f, b, 0, KEYS, 100);
    flush();
    builds_all_there(&f, 0, KEYS + 100);
}

/* --- making one --- */

static void test_build_new__says_what_it_needs(void **state)
{
    (void)state;
    struct error e = {""};
    struct build *none = NULL;
    struct generation large = filter_generation(&f, 3, 5000, 1);
    struct build_options o = builds_options(&f, directory);
    o.memory = FEW;
    o.spill_dir = "";
    gives(ERR_CONFIG, build_new(&none, &o, &e), e);
    assert_non_null(strstr(e.text, "spill_dir"));
    o.spill_dir = NULL;
    gives(ERR_CONFIG, build_new(&none, &o, &e), e);
    o.spill_dir = "/nowhere";
    gives(ERR_CONFIG, build_new(&none, &o, &e), e);
    assert_non_null(strstr(e.text, "/nowhere"));
    o.spill_dir = directory;
    o.generation = &large; /* five shards in each of 1000 files */
    gives(ERR_CONFIG, build_new(&none, &o, &e), e);
    assert_non_null(strstr(e.text, "10240 are needed"));
    o = builds_options(&f, NULL);
    o.writers = 0;
    gives(ERR_RANGE, build_new(&none, &o, &e), e);
    o.writers = BUILD_WRITERS_MAX + 1;
    gives(ERR_RANGE, build_new(&none, &o, &e), e);
    assert_null(none);
    o.writers = BUILD_WRITERS_MAX;
    make(o);
    o.memory = 1; /* one shard is held at least */
    o.spill_dir = directory;
    make(o);
    assert_int_equal(build_partitions(b), SHARDS);
    for (unsigned i = 0; i < BUILD_WRITERS_MAX; i++)
        builds_put(&f, b, i, 40 * i, 40);
    flush();
    builds_all_there(&f, 0, 40 * BUILD_WRITERS_MAX);
    assert_in_range(take_counts(), 40 * BUILD_WRITERS_MAX * 9 / 10, 40 * BUILD_WRITERS_MAX);
}

/* --- layers --- */

static void relayer_gives(enum err code, unsigned layer)
{
    struct error e = {""};
    gives(code, build_relayer(b, layer, &e), e);
}

static void test_build_relayer__goes_on_with_another_layer(void **state)
{
    static const uint32_t shards[] = {SHARDS, 7, 4};
    servers_flush(&servers);
    filter_fini(&f);
    filter_init(&f, &servers, "f");
    builds_make(&f, shards, 3);
    make(options(state));
    builds_put(&f, b, 0, 0, 1000);
    flush();
    assert_in_range(take_counts(), 990, 1000);
    relayer_gives(ERR_OK, 1);
    assert_int_equal(build_partitions(b), *state == NULL ? 1 : 2);
    builds_put(&f, b, 0, 10000, 400);
    flush();
    assert_in_range(take_counts(), 390, 400);
    relayer_gives(ERR_OK, 2); /* fits into the memory of four shards */
    assert_int_equal(build_partitions(b), 1);
    builds_put(&f, b, 0, 20000, 200);
    flush();
    assert_in_range(take_counts(), 190, 200);
    relayer_gives(ERR_OK, 0);
    builds_put(&f, b, 0, 1000, 400);
    flush();
    builds_layer_is(&f, 0, 0, 1400);
    builds_layer_is(&f, 1, 10000, 400);
    builds_layer_is(&f, 2, 20000, 200);
}

static void test_build_relayer__refuses_where_something_is_left(void **state)
{
    static const uint32_t shards[] = {SHARDS, 7};
    servers_flush(&servers);
    filter_fini(&f);
    filter_init(&f, &servers, "f");
    builds_make(&f, shards, 2);
    make(options(state));
    builds_put(&f, b, 0, 0, 100);
    relayer_gives(ERR_CONFLICT, 1);
    builds_lose(&f, SHARDS - 1);
    builds_lose(&f, SHARDS - 2);
    flush_gives(ERR_LOST);
    (void)take_counts();
    relayer_gives(ERR_CONFLICT, 1);
    builds_find(&f, SHARDS - 1);
    builds_find(&f, SHARDS - 2);
    flush();
    if (*state != NULL)
        relayer_gives(ERR_CONFLICT, 1); /* not all counts are taken */
    (void)take_counts();
    relayer_gives(ERR_OK, 1);
    builds_put(&f, b, 0, 100, 100);
    flush();
    builds_all_there(&f, 0, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_build_flush__brings_all_keys_of_ended_pages),
        BOTH(test_build_flush__of_nothing_does_nothing),
        BOTH(test_build_flush__follows_the_view),
        BOTH(test_build_take_counts__counts_new_keys_by_shard),
        BOTH(test_build_flush__forgets_nothing_where_redis_does_not_answer),
        BOTH(test_build_flush__forgets_nothing_where_a_shard_is_lost),
        BOTH(test_build_flush__forgets_nothing_where_redis_refuses),
        BOTH(test_build_flush__forgets_nothing_where_it_is_stopped),
        MEMORY(test_build_new__says_what_it_needs),
        BOTH(test_build_relayer__goes_on_with_another_layer),
        BOTH(test_build_relayer__refuses_where_something_is_left),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
