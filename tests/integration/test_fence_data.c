/* SPDX-License-Identifier: MIT */
/* A job's own reads and writes of shards, and a node that does not answer. */
#include "tests/integration/filters.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/block.h"

enum { SHARDS = 6, KEYS = 3000, PAGE = 3 };

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
    filter_make(&f, SHARDS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    filter_fini(&f);
    return 0;
}

static struct generation *current(void)
{
    return &f.view.slot[f.view.current];
}

static void delete_shard(uint32_t shard)
{
    const struct key_name *name = filter_shard(&f, current()->number, shard, f.view.epoch);
    assert_int_equal(servers_integer(&servers, filter_node(&f, shard), "DEL %b", name->text, name->length),
                     1);
}

/* --- keys --- */

static void test_fence_add__tells_new_keys_from_old_ones(void **state)
{
    (void)state;
    assert_int_equal(filter_check(&f, current(), 0, KEYS), 0);
    assert_in_range(filter_add(&f, current(), 0, 50), 0, 1);
    assert_int_equal(filter_add(&f, current(), 0, 50), 50);
    assert_int_equal(filter_check(&f, current(), 0, 50), 50);
    assert_in_range(filter_check(&f, current(), 100000, 1000), 0, 20);
}

static void test_fence_add__takes_more_keys_than_one_pipeline(void **state)
{
    (void)state;
    (void)filter_add(&f, current(), 0, KEYS);
    assert_int_equal(filter_check(&f, current(), 0, KEYS), KEYS);
    assert_int_equal(filter_check(&f, current(), 0, 0), 0);
}

static void test_fence_check__of_a_lost_shard_is_no_answer(void **state)
{
    (void)state;
    static const char *const keys[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"};
    static const size_t lengths[] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    struct error e = {""};
    uint8_t found[10];
    (void)filter_add(&f, current(), 0, 10);
    for (uint32_t i = 0; i < SHARDS; i++)
        delete_shard(i);
    gives(ERR_LOST, fence_check(&f.fence, &f.view, current(), 10, keys, lengths, found, &e), e);
    gives(ERR_LOST, fence_add(&f.fence, &f.view, current(), 10, keys, lengths, found, &e), e);
    /* The add has left zombies: without a tag they are no answer either. */
    gives(ERR_LOST, fence_check(&f.fence, &f.view, current(), 10, keys, lengths, found, &e), e);
    gives(ERR_LOST, fence_add(&f.fence, &f.view, current(), 10, keys, lengths, found, &e), e);
}

static void test_fence_check__under_an_old_view_is_no_answer(void **state)
{
    (void)state;
    static const char *const keys[] = {"k0"};
    static const size_t lengths[] = {2};
    static struct view old;
    struct error e = {""};
    uint8_t found[1];
    (void)filter_add(&f, current(), 0, 1);
    old = f.view;
    filter_open(&f, 2, true);
    gives(ERR_LOST, fence_check(&f.fence, &old, &old.slot[0], 1, keys, lengths, found, &e), e);
    gives(ERR_LOST, fence_add(&f.fence, &old, &old.slot[0], 1, keys, lengths, found, &e), e);
    filter_all_are(&f, &old.slot[0], 1, "tombstone");
    must(fence_check(&f.fence, &f.view, current(), 1, keys, lengths, found, &e), e);
    assert_int_equal(found[0], 1);
}

static void test_fence_count_lost__counts_what_carries_no_tag(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost = 99;
    must(fence_count_lost(&f.fence, &f.view, current(), &lost, &e), e);
    assert_int_equal(lost, 0);
    delete_shard(1);
    const struct key_name *name = filter_shard(&f, 2, 4, 1);
    assert_string_equal(servers_text(&servers, 0, "SET %b zombie", name->text, name->length), "OK");
    name = filter_shard(&f, 2, 5, 1);
    assert_int_equal(servers_integer(&servers, 1, "DEL %b", name->text, name->length), 1);
    assert_int_equal(servers_integer(&servers, 1, "RPUSH %b x", name->text, name->length), 1);
    must(fence_count_lost(&f.fence, &f.view, current(), &lost, &e), e);
    assert_int_equal(lost, 3);
}

/* --- uploads --- */

/* Bitmaps of a whole generation with the keys [first, first + count) in them, uploaded and waited for. */
static enum err upload_keys(unsigned first, unsigned count, struct error *e)
{
    const struct generation *g = current();
    const struct geometry *geometry = &g->layers[0].geometry;
    uint32_t bytes = geometry_shard_bytes(geometry);
    uint8_t *maps = calloc(geometry->shards, bytes);
    assert_non_null(maps);
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        struct key_place place;
        int n = snprintf(key, sizeof(key), "k%u", first + i);
        hash_place(geometry, hash_key(g->seed, key, (size_t)n), &place);
        (void)block_set(geometry, &place, maps + (size_t)place.shard * bytes);
    }
    enum err code = ERR_OK;
    for (uint32_t i = 0; i < geometry->shards && code == ERR_OK; i++)
        code = fence_upload(&f.fence, &f.view, g, 0, i, TOKEN, PAGE, maps + (size_t)i * bytes, e);
    if (code == ERR_OK)
        code = fence_upload_wait(&f.fence, 0, e);
    free(maps);
    return code;
}

static long long uploads_left(void)
{
    long long left = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct key_name name;
        names_upload(&f.fence.names, (struct shard_id){.generation = 2, .shard = i}, TOKEN, PAGE, &name);
        left += servers_integer(&servers, filter_node(&f, i), "EXISTS %b", name.text, name.length);
    }
    return left;
}

static void test_fence_upload__adds_its_bits_to_those_of_others(void **state)
{
    (void)state;
    struct error e = {""};
    (void)filter_add(&f, current(), 0, 300); /* callers, during the scan */
    must(upload_keys(300, 300, &e), e);
    assert_int_equal(filter_check(&f, current(), 0, 600), 600);
    filter_all_are(&f, current(), 1, "shard");
    assert_int_equal(uploads_left(), 0);
    assert_in_range(filter_check(&f, current(), 100000, 1000), 0, 100);
    must(upload_keys(300, 300, &e), e); /* again, after a crash */
    assert_int_equal(filter_check(&f, current(), 0, 600), 600);
}

static void test_fence_upload__refuses_a_shard_that_is_absent_and_does_not_make_it(void **state)
{
    (void)state;
    struct error e = {""};
    delete_shard(3);
    gives(ERR_LOST, upload_keys(0, 100, &e), e);
    assert_string_equal(filter_kind(&f, current(), 3, filter_shard(&f, 2, 3, 1)), "none");
    assert_int_equal(filter_check(&f, current(), 0, 0), 0); /* the link works on */
}

static void test_fence_upload__refuses_a_shard_without_a_tag(void **state)
{
    (void)state;
    struct error e = {""};
    static const char *const others[] = {"zombie", "list"};
    for (int i = 0; i < 2; i++) {
        delete_shard(2);
        const struct key_name *name = filter_shard(&f, 2, 2, 1);
        if (i == 0)
            (void)servers_integer(&servers, 0, "SETBIT %b 30 1", name->text, name->length);
        else
            (void)servers_integer(&servers, 0, "RPUSH %b moved", name->text, name->length);
        long long length = i == 0 ? servers_integer(&servers, 0, "STRLEN %b", name->text, name->length) : 0;
        gives(ERR_LOST, upload_keys(0, 100, &e), e);
        if (i == 0) {
            assert_string_equal(filter_kind(&f, current(), 2, name), others[i]);
            assert_int_equal(servers_integer(&servers, 0, "STRLEN %b", name->text, name->length), length);
        } else {
            assert_string_equal(servers_text(&servers, 0, "TYPE %b", name->text, name->length), others[i]);
        }
    }
}

static void test_fence_upload__of_an_old_view_changes_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view now;
    struct view old = f.view;
    filter_open(&f, 2, true);
    now = f.view;
    f.view = old;
    gives(ERR_LOST, upload_keys(0, 100, &e), e);
    f.view = now;
    assert_int_equal(filter_check(&f, current(), 0, 100), 0);
    filter_all_are(&f, current(), 1, "tombstone");
}

/* --- a node that does not answer --- */

static void slow_link(unsigned timeout_ms)
{
    link_free(f.fence.link);
    f.fence.link = link_new(&servers.nodes, timeout_ms, "twinbloom-test");
    assert_non_null(f.fence.link);
}

/* Node 1 is stopped while @what runs; its code, and how long it took. */
static enum err while_stopped(enum err (*what)(struct error *e), struct error *e, uint64_t *took_us)
{
    process_signal(&servers.redis[1].process, SIGSTOP);
    clock_sleep_us(50000); /* until it has happened */
    uint64_t began = clock_mono_us();
    enum err code = what(e);
    *took_us = clock_mono_us() - began;
    process_signal(&servers.redis[1].process, SIGCONT);
    return code;
}

static enum err count_lost(struct error *e)
{
    uint64_t lost;
    return fence_count_lost(&f.fence, &f.view, current(), &lost, e);
}

static enum err add_keys(struct error *e)
{
    static const char *const keys[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"};
    static const size_t lengths[] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    uint8_t found[10];
    return fence_add(&f.fence, &f.view, current(), 10, keys, lengths, found, e);
}

static enum err upload_some(struct error *e)
{
    return upload_keys(0, 100, e);
}

static enum err rename_all(struct error *e)
{
    uint64_t lost;
    return fence_complete(&f.fence, &f.view, &lost, e);
}

static void test_fence__gives_up_within_the_deadline_and_works_again(void **state)
{
    (void)state;
    enum { DEADLINE_MS = 300 };
    static enum err (*const works[])(struct error * e) = {count_lost, add_keys, upload_some, rename_all};
    slow_link(DEADLINE_MS);
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        struct error e = {""};
        uint64_t took = 0;
        if (works[i] == rename_all)
            filter_open(&f, 2, false);
        assert_int_equal(filter_check(&f, current(), 0, 0), 0);
        must(count_lost(&e), e); /* connected to both; under an unfenced view all shards count as lost */
        gives(ERR_TIMEOUT, while_stopped(works[i], &e, &took), e);
        assert_non_null(strstr(e.text, servers.nodes.node[1].name));
        assert_in_range(took / 1000, DEADLINE_MS - 50, 3 * DEADLINE_MS);
        must(works[i](&e), e);
    }
    filter_all_are(&f, current(), 2, "shard");
    filter_all_are(&f, current(), 1, "tombstone");
    (void)filter_add(&f, current(), 0, 500);
    assert_int_equal(filter_check(&f, current(), 0, 500), 500);
}

/* A link that was not connected before: the kernel takes the connection, nobody greets. */
static void test_fence__gives_up_a_new_connection_within_the_deadline(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t took = 0;
    slow_link(300);
    enum err code = while_stopped(count_lost, &e, &took);
    if (code != ERR_TIMEOUT && code != ERR_UNREACHABLE)
        fail_msg("%s: %s", error_name(code), e.text);
    assert_in_range(took / 1000, 250, 900);
    must(count_lost(&e), e);
}

/* --- the name of a connection --- */

static const char *name_on_the_server(struct link *link)
{
    static char text[64];
    struct error e = {""};
    redisReply *reply = NULL;
    must(link_command(link, NODE_HOME, &reply, &e, "CLIENT ID"), e);
    long long id = reply->integer;
    freeReplyObject(reply);
    const char *list = servers_text(&servers, NODE_HOME, "CLIENT LIST ID %lld", id);
    const char *name = strstr(list, " name=");
    assert_non_null(name);
    (void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(name + 6, " "), name + 6);
    return text;
}

static void test_link__shows_its_name(void **state)
{
    (void)state;
    slow_link(1000);
    assert_string_equal(name_on_the_server(f.fence.link), "twinbloom-test");
}

static void test_link__works_for_a_user_who_may_not_name_it(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *reply = NULL;
    static struct nodes nodes;
    char list[80];
    (void)snprintf(list, sizeof(list), "redis://shy:pw@127.0.0.1:%u", servers.redis[0].port);
    must(nodes_parse(&nodes, list, &e), e);
    assert_string_equal(
        servers_text(&servers, NODE_HOME, "ACL SETUSER shy on >pw ~* &* +@all -client|setname"), "OK");
    struct link *link = link_new(&nodes, 1000, "twinbloom-test");
    must(link_command(link, NODE_HOME, &reply, &e, "PING"), e);
    assert_string_equal(reply->str, "PONG");
    freeReplyObject(reply);
    assert_string_equal(name_on_the_server(link), "");
    link_free(link);
}

/* One that was never counted has none; numbers of other shards, layers and generations do not get mixed up.
 */
static void test_fence_shard_items__reads_a_range(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t items[SHARDS] = {99, 99, 99, 99, 99, 99};
    struct key_name name;
    names_filter_key(&f.fence.names, "count", &name);
    assert_int_equal(
        servers_integer(&servers, NODE_HOME,
                        "HSET %b 2.0 77 2.0.0 1 2.0.2 3 2.0.3 18446744073709551615 2.0.5 6 2.0.33 8 "
                        "2.1.1 9 1.0.1 10 2.0.4 none",
                        name.text, name.length),
        9);
    must(fence_shard_items(&f.fence, current(), 0, 0, SHARDS, items, &e), e);
    const uint64_t all[SHARDS] = {1, 0, 3, UINT64_MAX, 0, 6};
    assert_memory_equal(items, all, sizeof(all));
    must(fence_shard_items(&f.fence, current(), 0, 2, 2, items, &e), e);
    assert_true(items[0] == 3 && items[1] == UINT64_MAX && items[2] == 3);
    assert_true(servers_integer(&servers, NODE_HOME, "DEL %b", name.text, name.length) == 1);
    assert_string_equal(servers_text(&servers, NODE_HOME, "SET %b text", name.text, name.length), "OK");
    gives(ERR_REFUSED, fence_shard_items(&f.fence, current(), 0, 0, SHARDS, items, &e), e);
}

static void test_fence__says_that_a_node_is_not_there(void **state)
{
    (void)state;
    struct error e = {""};
    temp_redis_kill(&servers.redis[1]);
    gives(ERR_UNREACHABLE, count_lost(&e), e);
    gives(ERR_UNREACHABLE, add_keys(&e), e);
    must(temp_redis_restart(&servers.redis[1], false, &e), e);
    client_close(&servers.client[1]);
    must(client_open(&servers.client[1], servers.redis[1].port, 5000, &e), e);
    uint64_t lost = 0;
    must(fence_count_lost(&f.fence, &f.view, current(), &lost, &e), e);
    assert_int_equal(lost, SHARDS / 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fence_add__tells_new_keys_from_old_ones),
        TEST(test_fence_add__takes_more_keys_than_one_pipeline),
        TEST(test_fence_check__of_a_lost_shard_is_no_answer),
        TEST(test_fence_check__under_an_old_view_is_no_answer),
        TEST(test_fence_count_lost__counts_what_carries_no_tag),
        TEST(test_fence_upload__adds_its_bits_to_those_of_others),
        TEST(test_fence_upload__refuses_a_shard_that_is_absent_and_does_not_make_it),
        TEST(test_fence_upload__refuses_a_shard_without_a_tag),
        TEST(test_fence_upload__of_an_old_view_changes_nothing),
        TEST(test_fence__gives_up_within_the_deadline_and_works_again),
        TEST(test_fence__gives_up_a_new_connection_within_the_deadline),
        TEST(test_fence_shard_items__reads_a_range),
        TEST(test_link__shows_its_name),
        TEST(test_link__works_for_a_user_who_may_not_name_it),
        TEST(test_fence__says_that_a_node_is_not_there),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
