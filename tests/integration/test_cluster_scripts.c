/* SPDX-License-Identifier: MIT */
/* Scripts in slots that are on their way: a node that gives a slot away lets no script touch a key that it
 * has deleted, nor one that was not there. Each either does its work or nothing, and can be run again. */
#include "tests/integration/filters.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/slots.h"

enum { SHARDS = 6, KEYS = 300, LATER_US = 300000 };

static struct servers servers;
static struct filter f;

static int start(void **state)
{
    (void)state;
    (void)setenv("TWINBLOOM_TEST_CLUSTER", "1", 1);
    return servers_start(&servers, 2);
}

static int stop(void **state)
{
    (void)state;
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
    struct error e = {""};
    filter_fini(&f);
    must(temp_cluster_agree(&servers.cluster, 60000, &e), e);
    return 0;
}

/* --- slots on their way --- */

struct way {
    unsigned slot, from, to;
    enum err code;
    struct error error;
    pthread_t thread;
};

static void open_slot(struct way *w, unsigned slot)
{
    struct error e = {""};
    *w = (struct way){.slot = slot, .from = temp_cluster_owner(&servers.cluster, 0, slot)};
    w->to = (w->from + 1) % CLUSTER_MASTERS;
    must(temp_cluster_open(&servers.cluster, slot, w->from, w->to, &e), e);
}

static enum err arrive(struct way *w, struct error *e)
{
    unsigned moved = 1;
    enum err code = ERR_OK;
    while (code == ERR_OK && moved > 0)
        code = temp_cluster_migrate(&servers.cluster, w->slot, w->from, w->to, 10, &moved, e);
    return code == ERR_OK ? temp_cluster_close(&servers.cluster, w->slot, w->from, w->to, e) : code;
}

static void close_slot(struct way *w)
{
    struct error e = {""};
    must(arrive(w, &e), e);
}

static void *arrive_later(void *arg)
{
    struct way *w = arg;
    clock_sleep_us(LATER_US);
    w->code = arrive(w, &w->error);
    return NULL;
}

static unsigned slot_of_shard(const struct generation *g, uint32_t shard)
{
    return where_slot(filter_where(&f, g, shard));
}

/* A key of the filter itself, on whichever node it is. */
static const char *home_text(const char *command, const char *what, const char *field)
{
    struct key_name name;
    char format[64];
    names_filter_key(&f.fence.names, what, &name);
    (void)snprintf(format, sizeof(format), "%s %%b %s", command, field);
    return servers_text(&servers, 0, format, name.text, name.length);
}

/* --- tests --- */

static void test_tombstones__are_made_in_slots_that_are_on_their_way(void **state)
{
    (void)state;
    struct error e = {""};
    struct way ways[SHARDS];
    struct generation old = f.view.slot[f.view.current];
    filter_open(&f, SHARDS, true);
    filter_cutover(&f, true);
    filter_finish(&f, true);
    for (uint32_t i = 0; i < SHARDS; i++)
        open_slot(&ways[i], slot_of_shard(&old, i));
    uint64_t epoch = f.view.retiring_epoch;
    must(fence_retire(&f.fence, &f.view, MUTEX, &e), e);
    for (uint32_t i = 0; i < SHARDS; i++)
        close_slot(&ways[i]);
    filter_all_are(&f, &old, epoch, "tombstone");
    assert_int_equal(f.view.retiring_epoch, 0);
}

static void test_change__of_view_and_record_is_whole_in_a_slot_that_is_on_its_way(void **state)
{
    (void)state;
    struct error e = {""};
    struct way w;
    struct view to;
    static const char *const pairs[] = {"step", "settle", "rows", "7"};
    const struct fence_job job = {.reset = true, .pairs = pairs, .count = 4};
    struct key_name name;
    names_filter_key(&f.fence.names, "job", &name);
    (void)servers_integer(&servers, 0, "HSET %b state done rows 9 hold 1 checkpoint x", name.text,
                          name.length);
    to = f.view;
    to.phase = PHASE_BUILDING;
    to.last_generation++;
    to.slot[1] = filter_generation(&f, to.last_generation, SHARDS, ++to.epoch);
    to.slot[1].built = false;
    must(fence_create(&f.fence, &to.slot[1], 0, &e), e);
    open_slot(&w, slots_of_key(name.text, name.length));
    must(fence_change(&f.fence, &f.view, &to, MUTEX, &job, &e), e);
    close_slot(&w);
    must(fence_load(&f.fence, &to, &e), e);
    assert_int_equal(to.epoch, f.view.epoch + 1);
    assert_string_equal(home_text("HGET", "job", "step"), "settle");
    assert_string_equal(home_text("HGET", "job", "rows"), "7");
    assert_string_equal(home_text("HGET", "job", "hold"), "1");
    assert_string_equal(home_text("HGET", "job", "state"), "");
    assert_string_equal(home_text("HGET", "job", "checkpoint"), "");
}

/* One key here, none there: nothing is done until the slot has arrived. */
static void test_rename__in_a_slot_that_is_on_its_way_waits(void **state)
{
    (void)state;
    struct error e = {""};
    struct way w;
    uint64_t lost = 9;
    uint64_t epoch = f.view.epoch;
    filter_open(&f, SHARDS, false);
    const struct generation *g = view_current(&f.view);
    open_slot(&w, slot_of_shard(g, 2));
    assert_int_equal(pthread_create(&w.thread, NULL, arrive_later, &w), 0);
    uint64_t began = clock_mono_us();
    enum err code = fence_complete(&f.fence, &f.view, &lost, &e);
    uint64_t took = clock_mono_us() - began;
    (void)pthread_join(w.thread, NULL);
    must(w.code, w.error);
    must(code, e);
    assert_in_range(took, LATER_US * 9 / 10, LINK_MS * 1000);
    assert_int_equal(lost, 0);
    filter_all_are(&f, g, epoch + 1, "shard");
    filter_all_are(&f, g, epoch, "tombstone");
}

static void test_rename__over_a_zombie_in_a_slot_that_is_on_its_way_does_nothing_by_half(void **state)
{
    (void)state;
    struct error e = {""};
    struct way w;
    uint64_t lost = 9;
    uint64_t epoch = f.view.epoch;
    filter_open(&f, SHARDS, false);
    const struct generation *g = view_current(&f.view);
    const struct key_name *old = filter_shard(&f, g->number, 2, epoch);
    const struct key_name *new = filter_shard(&f, g->number, 2, epoch + 1);
    (void)servers_integer(&servers, 0, "SETBIT %b 100 1", new->text, new->length);
    open_slot(&w, slot_of_shard(g, 2));
    link_free(f.fence.link);
    f.fence.link = link_new(&servers.nodes, 200, NULL);
    gives(ERR_UNREACHABLE, fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_string_equal(filter_kind(&f, g, 2, old), "shard"); /* where it was: no tombstone is missing */
    close_slot(&w);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 0);
    filter_all_are(&f, g, epoch + 1, "shard");
    filter_all_are(&f, g, epoch, "tombstone");
}

/* The bitmap is on the other side before the shard is. */
static void test_upload__into_a_slot_that_is_on_its_way_is_whole(void **state)
{
    (void)state;
    struct error e = {""};
    struct way w;
    const struct generation *g = view_current(&f.view);
    const struct geometry *geometry = &g->layers[0].geometry;
    uint8_t *bytes = calloc(1, geometry_shard_bytes(geometry));
    bytes[5] = 0x10;
    open_slot(&w, slot_of_shard(g, 1));
    assert_int_equal(pthread_create(&w.thread, NULL, arrive_later, &w), 0);
    enum err code = fence_upload(&f.fence, &f.view, g, 0, 1, TOKEN, 1, bytes, &e);
    if (code == ERR_OK)
        code = fence_upload_wait(&f.fence, 0, &e);
    (void)pthread_join(w.thread, NULL);
    free(bytes);
    must(w.code, w.error);
    must(code, e);
    filter_all_are(&f, g, f.view.epoch, "shard");
    const struct key_name *name = filter_shard(&f, g->number, 1, f.view.epoch);
    assert_int_equal(servers_integer(&servers, 0, "GETBIT %b %d", name->text, name->length, 5 * 8 + 3), 1);
}

/* Keys are found on either side, and one that moves in between is found too. */
static void test_keys__of_slots_that_are_on_their_way_are_all_found(void **state)
{
    (void)state;
    struct error e = {""};
    struct way ways[SHARDS];
    const struct generation *g = view_current(&f.view);
    unsigned moved;
    uint64_t lost = 9;
    (void)filter_add(&f, g, 0, KEYS);
    for (uint32_t i = 0; i < SHARDS; i++) {
        open_slot(&ways[i], slot_of_shard(g, i));
        if (i % 2 == 0)
            must(temp_cluster_migrate(&servers.cluster, ways[i].slot, ways[i].from, ways[i].to, 64, &moved,
                                      &e),
                 e);
    }
    assert_int_equal(filter_check(&f, g, 0, KEYS), KEYS);
    (void)filter_add(&f, g, KEYS, KEYS);
    must(fence_count_lost(&f.fence, &f.view, g, &lost, &e), e);
    assert_int_equal(lost, 0);
    for (uint32_t i = 0; i < SHARDS; i++)
        close_slot(&ways[i]);
    assert_int_equal(filter_check(&f, g, 0, 2 * KEYS), 2 * KEYS);
}

/* --- shards that share a slot --- */

/* Of so many shards some do. */
static void test_uploads__of_shards_in_one_slot_keep_apart(void **state)
{
    (void)state;
    enum { MANY = 1600, PAGE = 1 };
    static struct filter many;
    static unsigned where[MANY];
    struct error e = {""};
    unsigned pairs = 0;
    filter_init(&many, &servers, "many");
    filter_make(&many, MANY);
    const struct generation *g = &many.view.slot[many.view.current];
    uint8_t *bitmap = calloc(1, geometry_shard_bytes(&g->layers[0].geometry));
    assert_non_null(bitmap);
    for (uint32_t i = 0; i < MANY; i++)
        where[i] = filter_where(&many, g, i);
    for (uint32_t a = 0; a < MANY; a++)
        for (uint32_t b = a + 1; b < MANY; b++) {
            if (where[a] != where[b])
                continue;
            const uint32_t order[] = {a, (b + 1) % MANY, b, a};
            for (unsigned i = 0; i < sizeof(order) / sizeof(order[0]); i++)
                must(fence_upload(&many.fence, &many.view, g, 0, order[i], TOKEN, PAGE + i, bitmap, &e), e);
            must(fence_upload_wait(&many.fence, 0, &e), e);
            pairs++;
        }
    free(bitmap);
    assert_true(pairs > 0);
    filter_all_are(&many, g, 1, "shard");
    filter_fini(&many);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tombstones__are_made_in_slots_that_are_on_their_way),
        TEST(test_change__of_view_and_record_is_whole_in_a_slot_that_is_on_its_way),
        TEST(test_rename__in_a_slot_that_is_on_its_way_waits),
        TEST(test_rename__over_a_zombie_in_a_slot_that_is_on_its_way_does_nothing_by_half),
        TEST(test_upload__into_a_slot_that_is_on_its_way_is_whole),
        TEST(test_keys__of_slots_that_are_on_their_way_are_all_found),
        TEST(test_uploads__of_shards_in_one_slot_keep_apart),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
