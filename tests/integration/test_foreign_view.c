/* SPDX-License-Identifier: MIT */
/* Views with which a coordinator must not work: of a later format, and with shards on a node that it does not
 * know. It says so; it never answers "no" from what it knew before, and it changes nothing. */
#include "tests/integration/coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expansion/control.h"

enum { SHARDS = 6 };

static struct servers servers;
static struct servers one_node; /* the same, as somebody knows them who has not heard of the second node */
static struct filter f;
static struct coordinator one;

static const struct filter_policy sourced = {.configured = true, .sourced = true};

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
    one_node = servers;
    one_node.nodes.count = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    filter_fini(&f);
    return 0;
}

static const struct generation *current(void)
{
    return &f.view.slot[f.view.current];
}

/* A view without shards on the second node. */
static void make_at_home(void)
{
    struct error e = {""};
    uint64_t lost;
    f.view = (struct view){
        .incarnation = INCARNATION, .epoch = 1, .phase = PHASE_STEADY, .last_generation = 2, .sourced = true};
    f.view.slot[0] = filter_generation(&f, 2, SHARDS, 1);
    nodes_pin(&one_node.nodes, &f.view.slot[0]);
    must(fence_create(&f.fence, &f.view.slot[0], 0, &e), e);
    must(fence_publish(&f.fence, &f.view, MUTEX, &e), e);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
}

static void set_field(const char *field, const char *value)
{
    struct key_name view;
    names_filter_key(&f.fence.names, "view", &view);
    (void)servers_integer(&servers, NODE_HOME, "HSET %b %s %s", view.text, view.length, field, value);
}

static const uint64_t offset_basis = 14695981039346656037u;

/* FNV-1a */
static uint64_t hash_more(uint64_t h, const redisReply *text)
{
    for (size_t i = 0; i < text->len; i++)
        h = (h ^ (unsigned char)text->str[i]) * 1099511628211u;
    return h;
}

/* All keys of both nodes with their values, for a comparison. Fields of a hash come in any order. */
static char *everything(void)
{
    char text[160];
    size_t n = 0;
    for (unsigned node = 0; node < servers.count; node++) {
        redisReply *keys = client_command(&servers.client[node], "KEYS *");
        assert_non_null(keys);
        uint64_t sum = 0;
        for (size_t i = 0; i < keys->elements; i++) {
            const char *name = keys->element[i]->str;
            bool fields = strcmp(servers_text(&servers, node, "TYPE %s", name), "hash") == 0;
            redisReply *value =
                client_command(&servers.client[node], fields ? "HGETALL %s" : "DUMP %s", name);
            assert_non_null(value);
            uint64_t h = hash_more(offset_basis, keys->element[i]);
            if (!fields)
                sum += hash_more(h, value);
            for (size_t j = 0; j + 1 < value->elements; j += 2)
                sum += hash_more(hash_more(h, value->element[j]), value->element[j + 1]);
            freeReplyObject(value);
        }
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%zu keys %llx; ", keys->elements,
                              (unsigned long long)sum);
        freeReplyObject(keys);
    }
    return strdup(text);
}

/* As time does: an old name is free then, and a write to it would make a string of it. */
static void remove_tombstones(void)
{
    for (unsigned node = 0; node < servers.count; node++) {
        redisReply *keys = client_command(&servers.client[node], "KEYS *");
        assert_non_null(keys);
        for (size_t i = 0; i < keys->elements; i++)
            if (strcmp(servers_text(&servers, node, "TYPE %s", keys->element[i]->str), "list") == 0)
                (void)servers_integer(&servers, node, "DEL %s", keys->element[i]->str);
        freeReplyObject(keys);
    }
}

/* --- a later format --- */

static void expect_error(enum operation_kind kind, enum err wanted, const char *says)
{
    enum err status = coordinator_ask(&one, kind, 0, 50);
    if (status != wanted || strstr(one.error, says) == NULL)
        fail_msg("%s: %s (%s)", kind == OPERATION_ADD ? "add" : "check", error_name(status), one.error);
}

static void test_later_format__is_an_error_and_nothing_changes(void **state)
{
    (void)state;
    filter_make(&f, SHARDS);
    coordinator_open(&one, &servers, sourced);
    coordinator_add(&one, 0, 50);
    assert_int_equal(coordinator_check(&one, 1000, 100, KEY_NO), 100);
    /* A later version changes the view, and its shards move. */
    filter_open(&f, SHARDS, true);
    set_field("format", "4");
    set_field("generation0", "in a form that nobody here can read");
    remove_tombstones();
    coordinator_run(&one, 1200); /* counts on their way arrive */
    char *before = everything();
    for (unsigned i = 0; i < 3; i++) {
        expect_error(OPERATION_CHECK, ERR_FORMAT, "upgrade");
        expect_error(OPERATION_ADD, ERR_FORMAT, "upgrade");
    }
    assert_int_equal(one.lost, 0);
    char *after = everything();
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void test_later_format__is_an_error_for_who_comes_new(void **state)
{
    (void)state;
    filter_make(&f, SHARDS);
    set_field("format", "4");
    coordinator_open(&one, &servers, sourced);
    expect_error(OPERATION_CHECK, ERR_FORMAT, "format 4");
    expect_error(OPERATION_ADD, ERR_FORMAT, "format 4");
    /* And as soon as it is known again it is served. */
    set_field("format", "1");
    coordinator_add(&one, 0, 50);
    assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
}

static void test_later_format__is_left_alone_by_whoever_would_change_it(void **state)
{
    (void)state;
    struct error e = {""};
    struct view *v = calloc(1, sizeof(*v));
    bool done = false;
    assert_non_null(v);
    filter_make(&f, SHARDS);
    set_field("format", "4");
    char *before = everything();
    gives(ERR_FORMAT, fence_load(&f.fence, v, &e), e);
    gives(ERR_FORMAT, fence_load_any(&f.fence, v, &e), e);
    gives(ERR_FORMAT, fence_expire(&f.fence, 12345, 0, false, &done, &e), e);
    gives(ERR_FORMAT, control_ask(&f.fence, WISH_ABORT, 0, &e), e);
    gives(ERR_EXISTS, fence_publish(&f.fence, &f.view, MUTEX, &e), e);
    assert_false(done);
    char *after = everything();
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(v);
}

static void test_unknown_fields__stay_and_do_no_harm(void **state)
{
    (void)state;
    struct key_name view;
    filter_make(&f, SHARDS);
    set_field("since_a_later_version", "whatever");
    coordinator_open(&one, &servers, sourced);
    coordinator_add(&one, 0, 50);
    filter_open(&f, SHARDS, true);
    assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
    names_filter_key(&f.fence.names, "view", &view);
    assert_string_equal(
        servers_text(&servers, NODE_HOME, "HGET %b since_a_later_version", view.text, view.length),
        "whatever");
    assert_string_equal(servers_text(&servers, NODE_HOME, "HGET %b format", view.text, view.length), "1");
}

static void test_too_many_fields__are_damage_and_not_half_a_view(void **state)
{
    (void)state;
    char name[32];
    filter_make(&f, SHARDS);
    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(name, sizeof(name), "a%u", i);
        set_field(name, "x");
    }
    coordinator_open(&one, &servers, sourced);
    expect_error(OPERATION_CHECK, ERR_PARSE, "fields");
}

/* --- a node that is not known --- */

static void test_unknown_node__is_an_error_whatever_was_known_before(void **state)
{
    (void)state;
    make_at_home();
    coordinator_open(&one, &one_node, sourced);
    coordinator_add(&one, 0, 50);
    assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
    /* Others build it on both nodes. */
    filter_open(&f, SHARDS, true);
    remove_tombstones();
    coordinator_run(&one, 1200);
    char *before = everything();
    for (unsigned i = 0; i < 3; i++) {
        expect_error(OPERATION_CHECK, ERR_CONFIG, servers.nodes.node[1].name);
        expect_error(OPERATION_ADD, ERR_CONFIG, servers.nodes.node[1].name);
    }
    assert_int_equal(one.lost, 0);
    char *after = everything();
    assert_string_equal(before, after);
    free(before);
    free(after);
    /* They give up: the generation that it can reach is alone again. */
    struct view next = f.view;
    next.phase = PHASE_STEADY;
    next.retiring = next.slot[1 - next.current];
    next.retiring_epoch = f.view.epoch;
    next.slot[1 - next.current] = (struct generation){0};
    filter_change(&f, &next, true);
    assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
}

static void test_unknown_node__is_an_error_of_every_load(void **state)
{
    (void)state;
    struct error e = {""};
    struct view *v = calloc(1, sizeof(*v));
    assert_non_null(v);
    filter_make(&f, SHARDS);
    struct fence fence = {.link = link_new(&one_node.nodes, LINK_MS, NULL), .names = f.fence.names};
    gives(ERR_CONFIG, fence_load(&fence, v, &e), e);
    gives(ERR_CONFIG, fence_load_any(&fence, v, &e), e);
    gives(ERR_CONFIG, fence_knows(&fence, current(), &e), e);
    assert_non_null(strstr(e.text, servers.nodes.node[1].name));
    fence_fini(&fence);
    link_free(fence.link);
    free(v);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_later_format__is_an_error_and_nothing_changes),
        TEST(test_later_format__is_an_error_for_who_comes_new),
        TEST(test_later_format__is_left_alone_by_whoever_would_change_it),
        TEST(test_unknown_fields__stay_and_do_no_harm),
        TEST(test_too_many_fields__are_damage_and_not_half_a_view),
        TEST(test_unknown_node__is_an_error_whatever_was_known_before),
        TEST(test_unknown_node__is_an_error_of_every_load),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
