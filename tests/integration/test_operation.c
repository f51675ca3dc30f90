/* SPDX-License-Identifier: MIT */
/* Checks and adds of a coordinator whose view is old, not fenced, gone, or whose shards or servers are. */
#include "tests/integration/filters.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shard/operation.h"

enum { SHARDS = 6, TIMEOUT_MS = 800, REDIS_TIMEOUT_MS = 300, GUARD_MS = 20000, BATCH_MAX = 1000 };

/* An event loop with its catalog. It knows nothing of the world while no operation runs. */
struct coordinator {
    struct event_base *base;
    struct catalog *catalog;
    struct filter_policy policy;
    unsigned lost; /* times that on_lost was called */
    bool done;
    bool retried;
    enum err status;
    char error[256];
    enum key_result result[BATCH_MAX];
};

static struct servers servers;
static struct filter f;
static struct coordinator one, two;

static struct filter_policy policy_of(void *arg, const char *name, size_t length)
{
    const struct coordinator *c = arg;
    return length == 1 && *name == 'f' ? c->policy : (struct filter_policy){0};
}

static void on_lost(void *arg, const char *name, size_t length)
{
    struct coordinator *c = arg;
    c->lost += length == 1 && *name == 'f';
}

static void open_coordinator(struct coordinator *c, struct filter_policy policy)
{
    memset(c, 0, sizeof(*c));
    c->policy = policy;
    c->base = event_base_new();
    assert_non_null(c->base);
    const struct catalog_options o = {.nodes = &servers.nodes, .prefix = PREFIX, .redis_timeout_ms = REDIS_TIMEOUT_MS,
                                      .timeout_ms = TIMEOUT_MS, .tombstone_ms = TOMBSTONE_MS, .policy = policy_of,
                                      .on_lost = on_lost, .arg = c};
    c->catalog = catalog_new(c->base, &o);
    assert_non_null(c->catalog);
}

static void close_coordinator(struct coordinator *c)
{
    if (c->base == NULL)
        return;
    catalog_free(c->catalog);
    (void)event_base_loop(c->base, EVLOOP_NONBLOCK);
    event_base_free(c->base);
    c->base = NULL;
}

static const struct filter_policy sourced = {.configured = true, .sourced = true};
static const struct filter_policy strict = {.configured = true, .sourced = true, .error_on_lost = true};
static const struct filter_policy reserved = {.configured = false};

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
    open_coordinator(&one, sourced);
    open_coordinator(&two, sourced);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_coordinator(&one);
    close_coordinator(&two);
    filter_fini(&f);
    return 0;
}

static void on_done(struct operation *op, void *arg)
{
    struct coordinator *c = arg;
    c->done = true;
    c->retried = operation_was_retried(op);
    c->status = operation_status(op);
    (void)snprintf(c->error, sizeof(c->error), "%s", operation_error(op));
    for (size_t i = 0; i < operation_keys(op); i++)
        c->result[i] = operation_result(op, i);
}

static void on_done_release(struct operation *op, void *arg)
{
    on_done(op, arg);
    operation_release(op);
}

static void loop_until_done(struct coordinator *c)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (!c->done) {
        assert_true(clock_mono_us() < until);
        (void)event_base_loop(c->base, EVLOOP_ONCE);
    }
}

static void loop_for(struct coordinator *c, unsigned ms)
{
    uint64_t until = clock_mono_us() + ms * 1000ull;
    while (clock_mono_us() < until)
        (void)event_base_loop(c->base, EVLOOP_ONCE);
}

static struct operation *start_operation(struct coordinator *c, enum operation_kind kind, const char *filter,
                                         unsigned first, unsigned count, operation_done_fn *done)
{
    struct error e = {""};
    struct catalog_filter *entry;
    must(catalog_find(c->catalog, filter, strlen(filter), &entry, &e), e);
    assert_true(count <= BATCH_MAX);
    struct operation *op = operation_new(c->catalog, kind, count, (size_t)count * 16);
    assert_non_null(op);
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        int n = snprintf(key, sizeof(key), "k%u", first + i);
        operation_key(op, key, (size_t)n);
    }
    c->done = false;
    operation_start(op, entry, done, c);
    assert_false(c->done);
    return op;
}

/* Keys "k<first>".. in one operation on filter f; results are then in c->result. */
static enum err ask(struct coordinator *c, enum operation_kind kind, unsigned first, unsigned count)
{
    struct operation *op = start_operation(c, kind, "f", first, count, on_done);
    loop_until_done(c);
    enum err status = operation_status(op);
    operation_release(op);
    return status;
}

static unsigned results(const struct coordinator *c, unsigned count, enum key_result wanted)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        n += c->result[i] == wanted;
    return n;
}

/* The number of keys that the check of @c answers with @wanted. */
static unsigned checked(struct coordinator *c, unsigned first, unsigned count, enum key_result wanted)
{
    enum err status = ask(c, OPERATION_CHECK, first, count);
    if (status != ERR_OK)
        fail_msg("check: %s (%s)", error_name(status), c->error);
    return results(c, count, wanted);
}

static void add(struct coordinator *c, unsigned first, unsigned count)
{
    enum err status = ask(c, OPERATION_ADD, first, count);
    if (status != ERR_OK)
        fail_msg("add: %s (%s)", error_name(status), c->error);
    assert_int_equal(results(c, count, KEY_LOST), 0);
}

static const struct generation *current(void)
{
    return &f.view.slot[f.view.current];
}

static uint32_t shard_of(unsigned key)
{
    char text[16];
    struct key_place place;
    int n = snprintf(text, sizeof(text), "k%u", key);
    hash_place(&current()->layers[0].geometry, hash_key(current()->seed, text, (size_t)n), &place);
    return place.shard;
}

static void delete_shard(uint32_t shard)
{
    const struct key_name *name = filter_shard(&f, current()->number, shard, f.view.epoch);
    assert_int_equal(servers_integer(&servers, filter_node(&f, shard), "DEL %b", name->text, name->length), 1);
}

/* --- the happy path --- */

static void test_operation__adds_and_finds_keys(void **state)
{
    (void)state;
    assert_in_range(checked(&one, 0, 500, KEY_NO), 495, 500);
    add(&one, 0, 500);
    assert_in_range(results(&one, 500, KEY_YES), 495, 500);
    add(&one, 0, 500);
    assert_int_equal(results(&one, 500, KEY_YES), 0);
    assert_int_equal(checked(&two, 0, 500, KEY_YES), 500);
    assert_false(two.retried);
    assert_int_equal(filter_check(&f, current(), 0, 500), 500);
    assert_int_equal(one.lost + two.lost, 0);
}

static void test_operation__on_a_filter_that_was_never_made_is_not_found(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct operation *op = start_operation(&one, i == 1 ? OPERATION_ADD : OPERATION_CHECK, "no-such", 0, 3, on_done);
        loop_until_done(&one);
        assert_int_equal(operation_status(op), ERR_NOT_FOUND);
        operation_release(op);
        /* Released by its own callback, as who needs it no more does. */
        (void)start_operation(&one, OPERATION_CHECK, "no-such", 0, 3, on_done_release);
        loop_until_done(&one);
    }
    assert_int_equal(one.lost, 0);
}

static void test_operation__released_early_calls_nobody(void **state)
{
    (void)state;
    struct operation *op = start_operation(&one, OPERATION_ADD, "f", 0, 10, on_done);
    operation_release(op);
    loop_for(&one, 100);
    assert_false(one.done);
    assert_int_equal(checked(&one, 0, 10, KEY_YES), 10); /* what was sent is not taken back */
}

static void test_catalog_free__cancels_what_still_runs(void **state)
{
    (void)state;
    (void)start_operation(&one, OPERATION_CHECK, "f", 0, 10, on_done_release);
    catalog_free(one.catalog);
    one.catalog = NULL;
    assert_true(one.done);
    assert_int_equal(one.status, ERR_CANCELLED);
}

/* --- an old view --- */

static void test_operation__with_an_old_view_never_says_no_to_a_newer_key(void **state)
{
    (void)state;
    add(&one, 0, 100);
    assert_int_equal(checked(&two, 0, 100, KEY_YES), 100); /* two has the view of epoch 1 now, and sleeps */
    filter_open(&f, 2 * SHARDS, true);
    add(&one, 100, 200);
    (void)filter_add(&f, &f.view.slot[1], 0, 100); /* the scan */
    assert_int_equal(checked(&two, 0, 300, KEY_YES), 300);
    assert_true(two.retried);
    filter_cutover(&f, true);
    add(&one, 300, 100);
    filter_finish(&f, true);
    add(&one, 400, 100);
    assert_int_equal(checked(&two, 0, 500, KEY_YES), 500);
    assert_int_equal(one.lost + two.lost, 0);
}

static void test_operation__with_an_old_view_adds_to_both_generations(void **state)
{
    (void)state;
    add(&one, 0, 10);
    add(&two, 0, 10);
    filter_open(&f, 2 * SHARDS, true);
    add(&two, 100, 300);
    assert_true(two.retried);
    assert_int_equal(filter_check(&f, &f.view.slot[0], 100, 300), 300);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 100, 300), 300);
    filter_cutover(&f, true);
    add(&one, 400, 300); /* one has slept since epoch 1 */
    assert_int_equal(filter_check(&f, &f.view.slot[0], 400, 300), 300);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 400, 300), 300);
    filter_finish(&f, true);
    add(&one, 700, 300);
    assert_int_equal(filter_check(&f, current(), 100, 900), 900);
    filter_all_are(&f, current(), 4, "shard");
    filter_all_are(&f, current(), 3, "tombstone"); /* no zombie in its place */
}

/* The commands are written before the change, and executed after it. */
static void test_operation__that_a_view_change_overtakes_starts_again(void **state)
{
    (void)state;
    add(&one, 0, 1);
    struct operation *op = start_operation(&one, OPERATION_ADD, "f", 100, 300, on_done);
    filter_open(&f, 2 * SHARDS, true);
    loop_until_done(&one);
    assert_int_equal(operation_status(op), ERR_OK);
    assert_true(operation_was_retried(op));
    operation_release(op);
    assert_int_equal(filter_check(&f, &f.view.slot[0], 100, 300), 300);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 100, 300), 300);
}

static void test_operation__with_a_view_of_a_lost_incarnation_is_no_answer(void **state)
{
    (void)state;
    add(&one, 0, 100);
    add(&two, 0, 100);
    filter_fini(&f);
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    f.fence.names.incarnation = INCARNATION + 1;
    filter_make(&f, SHARDS); /* epoch 1 again */
    (void)filter_add(&f, current(), 200, 100);
    assert_int_equal(checked(&one, 200, 100, KEY_YES), 100);
    add(&two, 300, 100);
    assert_int_equal(filter_check(&f, current(), 300, 100), 100);
}

/* --- a view that is not fenced --- */

static void test_operation__under_an_unfenced_view_is_kept_by_the_fence(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost = 99;
    add(&one, 0, 300);
    filter_open(&f, 2 * SHARDS, false);
    add(&one, 300, 100); /* with the view of epoch 1: its shards are still there, or renamed under it */
    add(&two, 400, 200);
    assert_int_equal(checked(&two, 0, 300, KEY_YES), 300);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 0);
    assert_int_equal(filter_check(&f, &f.view.slot[0], 0, 600), 600);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 400, 200), 200);
    assert_int_equal(checked(&one, 0, 600, KEY_YES), 600);
    assert_int_equal(checked(&two, 0, 600, KEY_YES), 600);
    assert_int_equal(one.lost + two.lost, 0);
}

static void test_operation__under_a_half_fenced_view_takes_part_in_the_fence(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost = 99;
    add(&one, 0, 300);
    filter_open(&f, 2 * SHARDS, false);
    add(&two, 300, 300);
    filter_all_are(&f, &f.view.slot[0], 2, "shard");
    filter_all_are(&f, &f.view.slot[0], 1, "tombstone");
    filter_all_are(&f, &f.view.slot[1], 2, "shard");
    add(&one, 600, 300); /* its view is old: it finds the tombstones */
    assert_true(one.retried);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 0);
    assert_int_equal(filter_check(&f, &f.view.slot[0], 0, 900), 900);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 300, 600), 600);
}

/* A shard that is not there may be on its way: nothing is concluded before the fence is complete. */
static void test_operation__concludes_no_loss_under_an_unfenced_view(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost = 99;
    add(&one, 0, 300);
    filter_open(&f, 2, false);
    const uint32_t shard = shard_of(0);
    for (uint64_t epoch = 1; epoch < 3; epoch++) {
        const struct key_name *name = filter_shard(&f, 2, shard, epoch);
        (void)servers_integer(&servers, filter_node(&f, shard), "DEL %b", name->text, name->length);
    }
    assert_int_equal(ask(&two, OPERATION_CHECK, 0, 1), ERR_TIMEOUT);
    assert_int_equal(two.lost, 0);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 1);
    assert_int_equal(checked(&two, 0, 1, KEY_YES), 1); /* maybe */
    assert_int_equal(two.lost, 1);
}

/* --- lost shards and views --- */

static void test_operation__says_maybe_for_keys_of_a_lost_shard(void **state)
{
    (void)state;
    add(&one, 0, 300);
    delete_shard(shard_of(0));
    unsigned of_shard = 0;
    for (unsigned i = 0; i < 300; i++)
        of_shard += shard_of(1000 + i) == shard_of(0);
    assert_true(of_shard > 0);
    assert_int_equal(checked(&one, 0, 300, KEY_YES), 300);
    assert_int_equal(checked(&one, 1000, 300, KEY_LOST), 0);
    for (unsigned i = 0; i < 300; i++)
        if (shard_of(1000 + i) == shard_of(0))
            assert_int_equal(one.result[i], KEY_YES);
    assert_in_range(results(&one, 300, KEY_NO), 300 - of_shard - 5, 300 - of_shard);
    assert_int_equal(one.lost, 1); /* told once */
    add(&one, 0, 300);             /* of a filter with a source: the row is the truth */
    assert_int_equal(results(&one, 300, KEY_YES), 0);
    assert_int_equal(checked(&one, 0, 300, KEY_YES), 300);
}

static void test_operation__gives_an_error_for_a_lost_shard_where_that_is_wanted(void **state)
{
    (void)state;
    close_coordinator(&two);
    open_coordinator(&two, strict);
    add(&two, 0, 300);
    delete_shard(shard_of(0));
    for (int kind = OPERATION_CHECK; kind <= (int)OPERATION_ADD; kind++) {
        assert_int_equal(ask(&two, (enum operation_kind)kind, 0, 300), ERR_OK);
        for (unsigned i = 0; i < 300; i++)
            assert_int_equal(two.result[i] == KEY_LOST, shard_of(i) == shard_of(0));
    }
    assert_int_equal(two.lost, 1);
}

static void test_operation__acknowledges_no_add_to_a_lost_shard_without_a_source(void **state)
{
    (void)state;
    close_coordinator(&two);
    open_coordinator(&two, reserved);
    add(&two, 0, 300);
    delete_shard(shard_of(0));
    for (int round = 0; round < 2; round++) { /* the first may leave a zombie for the second */
        assert_int_equal(ask(&two, OPERATION_ADD, 0, 300), ERR_OK);
        for (unsigned i = 0; i < 300; i++)
            assert_int_equal(two.result[i] == KEY_LOST, shard_of(i) == shard_of(0));
        assert_int_equal(checked(&two, 0, 300, KEY_YES), 300);
    }
    assert_int_equal(two.lost, 1);
}

static void test_operation__never_says_no_once_the_view_is_gone(void **state)
{
    (void)state;
    add(&one, 0, 300);
    close_coordinator(&two);
    open_coordinator(&two, reserved);
    assert_int_equal(checked(&two, 0, 300, KEY_YES), 300);
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{f}:view"), 1);
    assert_int_equal(checked(&one, 0, 300, KEY_YES), 300);
    servers_flush(&servers);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(checked(&one, 0, 600, KEY_YES), 600);
        assert_int_equal(checked(&two, 0, 600, KEY_YES), 600);
        assert_int_equal(ask(&two, OPERATION_ADD, 0, 10), ERR_LOST);
        add(&one, 0, 10);
        assert_int_equal(results(&one, 10, KEY_YES), 0);
    }
    assert_true(one.lost > 0);
    assert_true(two.lost > 0);
    assert_int_equal(servers_integer(&servers, 0, "EXISTS " PREFIX ":{f}:view"), 0);
}

static void test_operation__never_says_no_for_a_configured_filter_without_a_view(void **state)
{
    (void)state;
    servers_flush(&servers);
    assert_int_equal(checked(&one, 0, 300, KEY_YES), 300);
    close_coordinator(&two);
    open_coordinator(&two, strict);
    assert_int_equal(ask(&two, OPERATION_CHECK, 0, 10), ERR_OK);
    assert_int_equal(results(&two, 10, KEY_LOST), 10);
}

/* --- a server that is away --- */

/* The status of one check, which must come within the time that an operation has. */
static enum err check_in_time(struct coordinator *c)
{
    uint64_t began = clock_mono_us();
    enum err status = ask(c, OPERATION_CHECK, 0, 50);
    assert_in_range((clock_mono_us() - began) / 1000, 0, TIMEOUT_MS + 300);
    return status;
}

static void wait_recovered(struct coordinator *c)
{
    uint64_t until = clock_mono_us() + 5000 * 1000;
    enum err status;
    while ((status = ask(c, OPERATION_CHECK, 0, 50)) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("no recovery: %s (%s)", error_name(status), c->error);
}

static void test_operation__gives_up_in_time_while_redis_does_not_answer(void **state)
{
    (void)state;
    for (unsigned node = 0; node < 2; node++) {
        add(&one, 0, 50);
        process_signal(&servers.redis[node].process, SIGSTOP);
        enum err first = check_in_time(&one);
        enum err second = check_in_time(&one);
        enum err fresh = check_in_time(&two); /* on the second node: knows the view, has no connection there */
        process_signal(&servers.redis[node].process, SIGCONT);
        assert_true(first == ERR_TIMEOUT || first == ERR_UNREACHABLE);
        assert_true(second == ERR_TIMEOUT || second == ERR_UNREACHABLE);
        assert_true(fresh == ERR_TIMEOUT || fresh == ERR_UNREACHABLE);
        wait_recovered(&one);
        wait_recovered(&two);
        assert_int_equal(checked(&one, 0, 50, KEY_YES), 50);
    }
}

static void test_operation__gives_up_in_time_while_redis_is_down_and_recovers(void **state)
{
    (void)state;
    struct error e = {""};
    add(&one, 0, 50);
    temp_redis_kill(&servers.redis[1]);
    assert_int_equal(check_in_time(&one), ERR_UNREACHABLE);
    assert_non_null(strstr(one.error, servers.nodes.node[1].name));
    assert_int_equal(check_in_time(&two), ERR_UNREACHABLE);
    uint64_t began = clock_mono_us();
    assert_int_equal(ask(&one, OPERATION_ADD, 100, 50), ERR_UNREACHABLE);
    assert_in_range((clock_mono_us() - began) / 1000, 0, TIMEOUT_MS + 300);
    must(temp_redis_restart(&servers.redis[1], false, &e), e);
    client_close(&servers.client[1]);
    must(client_open(&servers.client[1], servers.redis[1].port, 5000, &e), e);
    wait_recovered(&one);
    assert_int_equal(checked(&one, 0, 50, KEY_YES), 50); /* it came back empty: maybe */
    assert_int_equal(one.lost, 1);
}

/* --- counts --- */

static long long counted(const char *field)
{
    const char *text = servers_text(&servers, 0, "HGET " PREFIX ":{f}:count %s", field);
    long long n = 0;
    return sscanf(text, "%lld", &n) == 1 ? n : 0;
}

static long long counted_by_shard(uint64_t generation, uint32_t shards)
{
    long long sum = 0;
    for (uint32_t i = 0; i < shards; i++) {
        char field[32];
        (void)snprintf(field, sizeof(field), "%llu.0.%u", (unsigned long long)generation, i);
        sum += counted(field);
    }
    return sum;
}

static void test_catalog__counts_new_keys_in_redis(void **state)
{
    (void)state;
    add(&one, 0, 400);
    unsigned fresh = results(&one, 400, KEY_YES);
    add(&one, 0, 400);
    add(&two, 0, 450);
    fresh += results(&two, 450, KEY_YES);
    loop_for(&one, 1300);
    loop_for(&two, 1300);
    assert_int_equal(counted("2.0"), fresh);
    assert_int_equal(counted_by_shard(2, SHARDS), fresh);
}

static void test_catalog__counts_both_generations_while_one_is_built(void **state)
{
    (void)state;
    add(&one, 0, 200);
    unsigned fresh = results(&one, 200, KEY_YES);
    filter_open(&f, 3, true);
    add(&one, 200, 200);
    unsigned late = results(&one, 200, KEY_YES);
    loop_for(&one, 1300);
    assert_int_equal(counted("2.0"), fresh + late);
    assert_int_equal(counted_by_shard(2, SHARDS), fresh + late);
    assert_in_range(counted("3.0"), 195, 200);
    assert_int_equal(counted_by_shard(3, 3), counted("3.0"));
}

static void test_catalog_flush__writes_what_was_counted(void **state)
{
    (void)state;
    add(&one, 0, 200);
    unsigned fresh = results(&one, 200, KEY_YES);
    catalog_flush(one.catalog);
    (void)checked(&one, 0, 1, KEY_YES); /* behind it on the same connections */
    assert_int_equal(counted("2.0"), fresh);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_operation__adds_and_finds_keys),
        TEST(test_operation__on_a_filter_that_was_never_made_is_not_found),
        TEST(test_operation__released_early_calls_nobody),
        TEST(test_catalog_free__cancels_what_still_runs),
        TEST(test_operation__with_an_old_view_never_says_no_to_a_newer_key),
        TEST(test_operation__with_an_old_view_adds_to_both_generations),
        TEST(test_operation__that_a_view_change_overtakes_starts_again),
        TEST(test_operation__with_a_view_of_a_lost_incarnation_is_no_answer),
        TEST(test_operation__under_an_unfenced_view_is_kept_by_the_fence),
        TEST(test_operation__under_a_half_fenced_view_takes_part_in_the_fence),
        TEST(test_operation__concludes_no_loss_under_an_unfenced_view),
        TEST(test_operation__says_maybe_for_keys_of_a_lost_shard),
        TEST(test_operation__gives_an_error_for_a_lost_shard_where_that_is_wanted),
        TEST(test_operation__acknowledges_no_add_to_a_lost_shard_without_a_source),
        TEST(test_operation__never_says_no_once_the_view_is_gone),
        TEST(test_operation__never_says_no_for_a_configured_filter_without_a_view),
        TEST(test_operation__gives_up_in_time_while_redis_does_not_answer),
        TEST(test_operation__gives_up_in_time_while_redis_is_down_and_recovers),
        TEST(test_catalog__counts_new_keys_in_redis),
        TEST(test_catalog__counts_both_generations_while_one_is_built),
        TEST(test_catalog_flush__writes_what_was_counted),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
