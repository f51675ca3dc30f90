/* SPDX-License-Identifier: MIT */
/* Making views, and fencing them; shards lie on two nodes. */
#include "tests/integration/filters.h"

enum { SHARDS = 11 };

static struct servers servers;
static struct filter f;

static int start(void **state)
{
    (void)state;
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
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    filter_fini(&f);
    return 0;
}

/* What the rename script answers for one shard of the current generation under @v. */
static long long rename_one(const struct view *v, uint32_t shard)
{
    struct error e = {""};
    long long answer = 99;
    const struct generation *g = view_current(v);
    const struct names *n = &f.fence.names;
    uint16_t tag = hash_tag(n->incarnation, n->filter, n->filter_length, g->number);
    fence_rename_call(&f.fence.call, n, v, g, 0, shard, tag, TOMBSTONE_MS);
    must(script_run(&f.fence.call, f.fence.link, filter_where(&f, g, shard), &answer, &e), e);
    return answer;
}

/* --- a first view --- */

static void test_fence_complete__makes_exactly_the_shards_of_the_first_view(void **state)
{
    (void)state;
    filter_make(&f, SHARDS);
    filter_all_are(&f, view_current(&f.view), 1, "shard");
    for (uint32_t i = 0; i < SHARDS; i++)
        assert_string_equal(filter_kind(&f, view_current(&f.view), i, filter_new_shard(&f, 2, i)),
                            "tombstone");
    /* Each shard and its tombstone, on its own node alone; and view and mutex at home. */
    int64_t keys = 0, size;
    struct client *node;
    struct error e = {""};
    for (unsigned i = 0; (node = servers_each(&servers, i)) != NULL; i++) {
        must(client_integer(node, &size, &e, "DBSIZE"), e);
        if (servers.count == 2)
            assert_int_equal(size, i == 0 ? 2 * 6 + 2 : 2 * 5);
        keys += size;
    }
    assert_int_equal(keys, 2 * SHARDS + 2);
    const struct view *v = filter_stored(&f);
    assert_int_equal(v->epoch, 1);
    assert_int_equal(v->fenced_epoch, 1);
    assert_int_equal(v->slot[0].number, 2);
    assert_int_equal(v->slot[1].number, 0);
}

static void test_fence_create__keeps_what_is_there_and_lets_it_expire(void **state)
{
    (void)state;
    struct error e = {""};
    struct generation g = filter_generation(&f, 2, SHARDS, 1);
    const struct key_name *name = filter_new_shard(&f, 2, 0);
    must(fence_create(&f.fence, &g, 0, &e), e);
    long long ttl = servers_integer(&servers, 0, "PTTL %b", name->text, name->length);
    assert_true(ttl > 60 * 1000);
    assert_int_equal(servers_integer(&servers, 0, "SETBIT %b 20 1", name->text, name->length), 0);
    must(fence_create(&f.fence, &g, 0, &e), e);
    assert_int_equal(servers_integer(&servers, 0, "GETBIT %b 20", name->text, name->length), 1);
    must(fence_discard(&f.fence, &g, 0, &e), e);
    for (uint32_t i = 0; i < SHARDS; i++)
        assert_string_equal(filter_kind(&f, &g, i, filter_new_shard(&f, 2, i)), "none");
    must(fence_discard(&f.fence, &g, 0, &e), e);
}

static void test_fence_publish__refuses_a_second_view_and_a_lost_mutex(void **state)
{
    (void)state;
    struct error e = {""};
    struct view v = {.incarnation = INCARNATION, .epoch = 1, .phase = PHASE_STEADY, .last_generation = 2};
    v.slot[0] = filter_generation(&f, 2, SHARDS, 1);
    gives(ERR_MUTEX_LOST, fence_publish(&f.fence, &v, "owner:8", &e), e);
    assert_int_equal(servers_integer(&servers, 0, "EXISTS " PREFIX ":{f}:view"), 0);
    assert_int_equal(servers_integer(&servers, 0, "HSET " PREFIX ":{f}:job step scan"), 1);
    assert_int_equal(servers_integer(&servers, 0, "HSET " PREFIX ":{f}:count 2.0 7"), 1);
    filter_make(&f, SHARDS);
    assert_int_equal(servers_integer(&servers, 0, "EXISTS " PREFIX ":{f}:job " PREFIX ":{f}:count"), 0);
    v.incarnation++;
    gives(ERR_EXISTS, fence_publish(&f.fence, &v, MUTEX, &e), e);
    assert_int_equal(filter_stored(&f)->incarnation, INCARNATION);
}

static void test_fence_load__says_where_there_is_no_view_or_a_damaged_one(void **state)
{
    (void)state;
    static struct view v;
    struct error e = {""};
    gives(ERR_NOT_FOUND, fence_load(&f.fence, &v, &e), e);
    filter_make(&f, SHARDS);
    assert_int_equal(servers_integer(&servers, 0, "HSET " PREFIX ":{f}:view epoch 0"), 0);
    gives(ERR_PARSE, fence_load(&f.fence, &v, &e), e);
}

/* --- the rename --- */

static void test_fence_rename__moves_a_shard_and_takes_its_ttl_away(void **state)
{
    (void)state;
    struct error e = {""};
    f.view = (struct view){.incarnation = INCARNATION, .epoch = 1};
    f.view.slot[0] = filter_generation(&f, 2, SHARDS, 1);
    must(fence_create(&f.fence, view_current(&f.view), 0, &e), e);
    const struct key_name *name = filter_shard(&f, 2, 0, 1);
    assert_int_equal(rename_one(&f.view, 0), 1);
    assert_string_equal(filter_kind(&f, view_current(&f.view), 0, name), "shard");
    assert_int_equal(servers_integer(&servers, 0, "PTTL %b", name->text, name->length), -1);
    long long ttl = servers_integer(&servers, 0, "PTTL %b", filter_new_shard(&f, 2, 0)->text,
                                    filter_new_shard(&f, 2, 0)->length);
    assert_in_range(ttl, TOMBSTONE_MS - 60000, TOMBSTONE_MS);
}

static void test_fence_rename__may_be_done_again(void **state)
{
    (void)state;
    filter_make(&f, SHARDS);
    (void)filter_add(&f, view_current(&f.view), 0, 300);
    struct view v = f.view;
    v.epoch = 2;
    assert_int_equal(rename_one(&v, 3), 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rename_one(&v, 3), 0);
    assert_string_equal(filter_kind(&f, view_current(&f.view), 3, filter_shard(&f, 2, 3, 2)), "shard");
    assert_string_equal(filter_kind(&f, view_current(&f.view), 3, filter_shard(&f, 2, 3, 1)), "tombstone");
}

static void test_fence_rename__refuses_a_tombstone_at_the_new_name(void **state)
{
    (void)state;
    filter_make(&f, SHARDS);
    const struct key_name *new = filter_shard(&f, 2, 0, 2);
    struct view v = f.view;
    v.epoch = 2;
    assert_int_equal(servers_integer(&servers, 0, "RPUSH %b moved", new->text, new->length), 1);
    assert_int_equal(rename_one(&v, 0), -2);
    assert_string_equal(servers_text(&servers, 0, "TYPE %b", new->text, new->length), "list");
    assert_string_equal(filter_kind(&f, view_current(&f.view), 0, filter_shard(&f, 2, 0, 1)), "shard");
}

static void test_fence_rename__replaces_a_zombie_at_the_new_name(void **state)
{
    (void)state;
    filter_make(&f, 1);
    assert_int_equal(filter_add(&f, view_current(&f.view), 0, 1), 0);
    struct view v = f.view;
    v.epoch = 2;
    const struct key_name *new = filter_shard(&f, 2, 0, 2);
    redisReply *r = servers_command(&servers, 0, "BITFIELD %b SET u1 40 1", new->text, new->length);
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    freeReplyObject(r);
    assert_string_equal(filter_kind(&f, view_current(&f.view), 0, new), "zombie");
    assert_int_equal(rename_one(&v, 0), 1);
    assert_string_equal(filter_kind(&f, view_current(&f.view), 0, new), "shard");
    f.view.epoch = 2;
    assert_int_equal(filter_check(&f, view_current(&f.view), 0, 1), 1);
}

static void test_fence_rename__moves_nothing_without_the_tag(void **state)
{
    (void)state;
    filter_make(&f, SHARDS);
    struct view v = f.view;
    v.epoch = 2;
    const struct key_name *old = filter_shard(&f, 2, 0, 1);
    assert_int_equal(servers_integer(&servers, 0, "SETRANGE %b 0 xx", old->text, old->length), 2048);
    assert_int_equal(rename_one(&v, 0), -1);
    assert_string_equal(filter_kind(&f, view_current(&f.view), 0, filter_shard(&f, 2, 0, 2)), "none");
    assert_string_equal(servers_text(&servers, 0, "SET %b string", old->text, old->length), "OK");
    assert_int_equal(rename_one(&v, 0), -1);
    assert_int_equal(servers_integer(&servers, 0, "DEL %b", old->text, old->length), 1);
    assert_int_equal(rename_one(&v, 0), -1);
    assert_string_equal(filter_kind(&f, view_current(&f.view), 0, filter_shard(&f, 2, 0, 2)), "none");
    assert_string_equal(filter_kind(&f, view_current(&f.view), 0, old), "none");
}

/* --- all of them --- */

static void test_fence_complete__counts_missing_shards_as_lost_and_goes_on(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost = 0;
    filter_make(&f, SHARDS);
    static const uint32_t gone[] = {2, 3, 9};
    for (size_t i = 0; i < 3; i++) {
        const struct key_name *name = filter_shard(&f, 2, gone[i], 1);
        assert_int_equal(
            servers_integer(&servers, filter_node(&f, gone[i]), "DEL %b", name->text, name->length), 1);
    }
    filter_open(&f, 3, false);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 3);
    assert_int_equal(filter_stored(&f)->fenced_epoch, 2);
    assert_string_equal(filter_kind(&f, view_current(&f.view), 2, filter_shard(&f, 2, 2, 2)), "none");
    assert_string_equal(filter_kind(&f, view_current(&f.view), 4, filter_shard(&f, 2, 4, 2)), "shard");
    filter_all_are(&f, &f.view.slot[1], 2, "shard");
}

static void test_fence_complete__is_nothing_the_second_time(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view unfenced;
    uint64_t lost = 99;
    filter_make(&f, SHARDS);
    filter_open(&f, 3, false);
    unfenced = f.view;
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(f.view.fenced_epoch, 2);
    (void)filter_add(&f, view_current(&f.view), 0, 200);
    lost = 99;
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 0);
    lost = 99; /* another driver, which does not know that it is done */
    must(fence_complete(&f.fence, &unfenced, &lost, &e), e);
    assert_int_equal(lost, 0);
    assert_int_equal(filter_check(&f, view_current(&f.view), 0, 200), 200);
    filter_all_are(&f, view_current(&f.view), 2, "shard");
}

static void test_fence_complete__finishes_what_another_left_half_done(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost = 99;
    filter_make(&f, SHARDS);
    (void)filter_add(&f, view_current(&f.view), 0, 200);
    filter_open(&f, 3, false);
    for (uint32_t i = 0; i < SHARDS; i += 2)
        assert_int_equal(rename_one(&f.view, i), 1);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 0);
    filter_all_are(&f, view_current(&f.view), 2, "shard");
    filter_all_are(&f, view_current(&f.view), 1, "tombstone");
    assert_int_equal(filter_check(&f, view_current(&f.view), 0, 200), 200);
}

static void test_fence_complete__of_an_old_view_is_refused(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view old;
    uint64_t lost;
    filter_make(&f, SHARDS);
    filter_open(&f, 3, false);
    old = f.view;
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    filter_cutover(&f, true);
    gives(ERR_FENCED, fence_complete(&f.fence, &old, &lost, &e), e);
    filter_all_are(&f, &f.view.slot[0], 3, "shard");
    filter_all_are(&f, &f.view.slot[1], 3, "shard");
    filter_all_are(&f, &f.view.slot[0], 2, "tombstone");
    assert_int_equal(filter_stored(&f)->fenced_epoch, 3);
}

/* The view does not say so (it may be on a node that lost it), but a shard is further on already. */
static void test_fence_complete__is_refused_by_a_tombstone_at_a_new_name(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost;
    filter_make(&f, SHARDS);
    filter_open(&f, 3, false);
    const struct key_name *name = filter_shard(&f, 2, 5, 2);
    assert_int_equal(servers_integer(&servers, 1, "RPUSH %b moved", name->text, name->length), 1);
    gives(ERR_FENCED, fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(filter_stored(&f)->fenced_epoch, 1);
    assert_int_equal(f.view.fenced_epoch, 1);
}

/* The tombstones' time is over too: then the view alone can refuse. */
static void test_fence_complete__of_an_old_view_is_refused_without_tombstones(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view old;
    uint64_t lost;
    filter_make(&f, SHARDS);
    filter_open(&f, 3, false);
    old = f.view;
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    filter_cutover(&f, true);
    for (unsigned slot = 0; slot < 2; slot++)
        for (uint32_t i = 0; i < f.view.slot[slot].layers[0].geometry.shards; i++)
            for (uint64_t epoch = 1; epoch < 3; epoch++) {
                const struct key_name *name = filter_shard(&f, f.view.slot[slot].number, i, epoch);
                (void)servers_integer(&servers, filter_node(&f, i), "DEL %b", name->text, name->length);
            }
    gives(ERR_FENCED, fence_complete(&f.fence, &old, &lost, &e), e);
    filter_all_are(&f, &f.view.slot[0], 3, "shard");
    filter_all_are(&f, &f.view.slot[0], 2, "none");
    assert_int_equal(filter_stored(&f)->fenced_epoch, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fence_complete__makes_exactly_the_shards_of_the_first_view),
        TEST(test_fence_create__keeps_what_is_there_and_lets_it_expire),
        TEST(test_fence_publish__refuses_a_second_view_and_a_lost_mutex),
        TEST(test_fence_load__says_where_there_is_no_view_or_a_damaged_one),
        TEST(test_fence_rename__moves_a_shard_and_takes_its_ttl_away),
        TEST(test_fence_rename__may_be_done_again),
        TEST(test_fence_rename__refuses_a_tombstone_at_the_new_name),
        TEST(test_fence_rename__replaces_a_zombie_at_the_new_name),
        TEST(test_fence_rename__moves_nothing_without_the_tag),
        TEST(test_fence_complete__counts_missing_shards_as_lost_and_goes_on),
        TEST(test_fence_complete__is_nothing_the_second_time),
        TEST(test_fence_complete__finishes_what_another_left_half_done),
        TEST(test_fence_complete__of_an_old_view_is_refused),
        TEST(test_fence_complete__is_refused_by_a_tombstone_at_a_new_name),
        TEST(test_fence_complete__of_an_old_view_is_refused_without_tombstones),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
