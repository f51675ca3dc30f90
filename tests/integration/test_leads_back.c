/* SPDX-License-Identifier: MIT */
/* The address of a node leads to its replica, which was promoted, and then to
 * its server again, which has its data and its replication id of before. The metadata node has no shards. */
#include "tests/integration/cut_over.h"
#include "tests/integration/log_members.h"
#include "tests/integration/log_redis.h"
#include "tests/integration/two_nodes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "migrate/build/build.h"
#include "shard/control/control_internal.h"
#include "shard/view/view_load.h"
#include "tests/lib/proxy.h"

enum {
    NODES = 2,
    HOME = 0,
    DATA = 1,
    REPLY_MS = 10000,
    WAIT_MS = 8000,
    BREAKS_US = 50000,
    LOOK_US = 5000,
    SOON_MS = 500,
    SELDOM_US = 3000000,
    OFTEN_US = 20000,
    GRACE_US = 2000000,
    PATIENCE = 5,
    CAPACITY = 3000,
    KEYS = 300,
    NEVER = 1000000
};

static struct temp_redis server[NODES], replica[NODES];
static struct proxy *proxy;
static unsigned route[NODES];
static uint16_t to[NODES];
static struct nodes nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;
static struct builder *b;
static struct build *build;

static void start(void)
{
    char list[128], port[8];
    static const char *const soon[] = {"--repl-diskless-sync-delay", "0", NULL};
    struct error e = {""};
    (void)signal(SIGPIPE, SIG_IGN);
    must(proxy_start(&proxy, &e), e);
    for (unsigned i = 0; i < NODES; i++) { /* with its first replica it gets another replication id */
        const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
        must(temp_redis_start(&server[i], soon, &e), e);
        (void)snprintf(port, sizeof(port), "%u", server[i].port);
        must(temp_redis_start(&replica[i], extra, &e), e);
        must(proxy_add(proxy, WIRE_REDIS, server[i].port, &route[i], &to[i], &e), e);
    }
    (void)snprintf(list, sizeof(list), "redis://127.0.0.1:%u,redis://127.0.0.1:%u", to[HOME], to[DATA]);
    must(nodes_parse(&nodes, list, &e), e);
    l = sync_client_new(&nodes, REPLY_MS, NULL);
    view = malloc(sizeof(*view));
    assert_true(l != NULL && view != NULL);
    for (unsigned i = 0; i < NODES; i++) {
        struct client c;
        int64_t replicas = 0;
        must(client_open(&c, server[i].port, REPLY_MS, &e), e);
        must(client_integer(&c, &replicas, &e, "WAIT 1 %d", WAIT_MS), e);
        assert_int_equal(replicas, 1);
        client_close(&c);
    }
}

/* The metadata node has neither shards nor a lane. */
static int set_up_home_apart(void **state)
{
    const struct two_nodes two = {.nodes = &nodes, .names = &names, .link = &l, .view = &view};
    (void)state;
    start();
    const struct temp_redis data = {.port = to[DATA]};
    two_nodes_make(&two, &data, CAPACITY, 1);
    names.incarnation = view->incarnation;
    return 0;
}

/* The lane is on the metadata node. */
static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    start();
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &names, CAPACITY, 1, 1024, &e), e);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(view);
    sync_client_free(l);
    for (unsigned i = 0; i < NODES; i++) {
        temp_redis_fini(&replica[i]);
        temp_redis_fini(&server[i]);
    }
    proxy_stop(proxy);
    return 0;
}

/* Behind all that the server has done. */
static void lead_to_replica(unsigned node)
{
    struct error e = {""};
    struct client c;
    int64_t replicas = 0;
    must(client_open(&c, server[node].port, REPLY_MS, &e), e);
    freeReplyObject(client_command(&c, "PUBLISH nobody nothing"));
    must(client_integer(&c, &replicas, &e, "WAIT 1 %d", WAIT_MS), e);
    assert_int_equal(replicas, 1);
    client_close(&c);
    must(client_open(&c, replica[node].port, REPLY_MS, &e), e);
    must(client_ok(&c, &e, "REPLICAOF NO ONE"), e);
    client_close(&c);
    proxy_aim(proxy, route[node], replica[node].port);
}

/* The link's connection breaks, as those of all others do. */
static void connect_again(void)
{
    struct error e = {""};
    sync_client_free(l);
    l = sync_client_new(&nodes, REPLY_MS, NULL);
    assert_non_null(l);
    must(log_view_load(l, &names, view, &e), e);
}

static void begins(void)
{
    struct error e = {""};
    const struct build_options options = {.memory = UINT64_MAX, .writers = 1};
    must(log_view_load(l, &names, view, &e), e);
    must(builder_new(&b, l, &names, &e), e);
    must(builder_begin(b, &view->slot[view->current].shape, "", &e), e);
    must(builder_start(b, &e), e);
    must(build_new(&build, b, &options, &e), e);
}

static void put_keys(void)
{
    struct error e = {""};
    char text[24];
    for (unsigned i = 0; i < KEYS; i++)
        build_put(build, 0, hash_key(b->seed, text, (size_t)snprintf(text, sizeof(text), "%u", i)));
    must(build_page_end(build, 0, &e), e);
}

static enum err puts_keys(struct error *e)
{
    put_keys();
    return build_checkpoint(build, "", 0, e);
}

static void ends(void)
{
    build_free(build);
    builder_free(b);
}

/* Another builder begins again at the replica; the record of the server says that all keys were written. */
static void test_a_build__that_began_again_at_another_home_has_no_key_lost(void **state)
{
    struct error e = {""};
    static struct log_member m; /* its threads outlive a failure */
    struct buffer rows = {0};
    (void)state;
    begins();
    must(puts_keys(&e), e);
    ends();
    lead_to_replica(HOME);
    connect_again();
    must(builder_new(&b, l, &names, &e), e);
    must(builder_resume(b, &rows, &e), e);
    assert_true(b->anew);
    must(builder_start(b, &e), e);
    builder_free(b);
    proxy_aim(proxy, route[HOME], server[HOME].port);
    connect_again();
    must(builder_new(&b, l, &names, &e), e);
    must(builder_resume(b, &rows, &e), e);
    if (!b->anew) {
        builder_note(b);
        must(cut_over(b, false, &e), e);
    }
    builder_free(b);
    buffer_fini(&rows);
    log_members_open(&m, &nodes, &names, UINT64_MAX, true);
    assert_int_equal(log_member_count(&m, 0, KEYS, KEY_ABSENT), 0);
    log_member_close(&m);
}

/* What is written there is lost when the address leads back. The connection that broke is replaced unnoticed.
 */
static void test_what_a_build_writes__at_another_server_does_not_count(void **state)
{
    struct error e = {""};
    (void)state;
    begins();
    lead_to_replica(DATA);
    clock_sleep_us(BREAKS_US);
    gives(ERR_LOST, puts_keys(&e), e);
    assert_true(b->anew);
    ends();
}

static enum err lead_away_once(void *arg, struct error *e)
{
    bool *led = arg;
    (void)e;
    if (!*led) {
        lead_to_replica(DATA);
        clock_sleep_us(BREAKS_US);
    }
    *led = true;
    return ERR_OK;
}

/* It leads to another server behind the builder's look, and back before the next one. Nothing is written
 * there, so nothing of it is lost. */
static void test_a_build__writes_nothing_to_a_server_that_it_did_not_look_at(void **state)
{
    static struct log_member m;
    struct error e = {""};
    bool led = false;
    (void)state;
    begins();
    build_free(build);
    const struct build_options options = {
        .memory = UINT64_MAX, .writers = 1, .poll = {.fn = lead_away_once, .arg = &led}};
    must(build_new(&build, b, &options, &e), e);
    gives(ERR_UNREACHABLE, puts_keys(&e), e);
    assert_true(led);
    assert_false(b->anew);
    proxy_aim(proxy, route[DATA], server[DATA].port);
    clock_sleep_us(BREAKS_US);
    must(build_cutover(build, false, &e), e);
    ends();
    log_members_open(&m, &nodes, &names, UINT64_MAX, true);
    assert_int_equal(log_member_count(&m, 0, KEYS, KEY_ABSENT), 0);
    log_member_close(&m);
}

static void test_a_builder__that_takes_over_at_another_server_begins_anew(void **state)
{
    struct error e = {""};
    (void)state;
    begins();
    must(puts_keys(&e), e);
    lead_to_replica(DATA);
    clock_sleep_us(BREAKS_US);
    gives(ERR_LOST, builder_take_over(b, &e), e);
    assert_true(b->anew);
    ends();
}

/* --- a fold --- */

/* Wait until the view says that the shards have all entries that there are now. */
static bool is_folded_within(unsigned ms)
{
    struct error e = {""};
    struct log_id end;
    struct lane lane;
    redisReply *r;
    uint64_t until = clock_mono_us() + ms * UINT64_C(1000);
    bool folded = false;
    must(log_view_load(l, &names, view, &e), e);
    must(log_view_lane_at(view, &names, &nodes, 0, &lane, &e), e);
    must(sync_client_command(l, lane.where, &r, &e, "XREVRANGE %s + - COUNT 1", lane.key.text), e);
    assert_true(log_id_parse(&end, r->element[0]->element[0]->str, r->element[0]->element[0]->len));
    freeReplyObject(r);
    while (!folded && clock_mono_us() < until) {
        must(log_view_load(l, &names, view, &e), e);
        folded = log_id_compare(view->slot[view->current].folded[0].position.id, end) >= 0;
        clock_sleep_us(LOOK_US);
    }
    return folded;
}

static bool await_folded(void)
{
    return is_folded_within(WAIT_MS);
}

/* The view of before has the same version, and an earlier position. The lane may have been trimmed beyond. */
static void test_positions__that_went_back_are_stored_again(void **state)
{
    static struct log_member m;
    (void)state;
    log_members_open(&m, &nodes, &names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS);
    assert_true(await_folded());
    lead_to_replica(HOME);
    connect_again();
    clock_sleep_us(BREAKS_US);
    assert_int_equal(log_member_added(&m, KEYS, KEYS), KEYS);
    assert_true(await_folded());
    uint64_t version = view->version;
    proxy_aim(proxy, route[HOME], server[HOME].port);
    connect_again();
    print_message("version %d, before: %d\n", (int)view->version, (int)version);
    assert_true(await_folded());
    log_member_close(&m);
}

/* Open a process that looks seldom, and have it fold the first keys. */
static void open_seldom(struct log_member *m)
{
    struct error e = {""};
    const struct log_member_options o = {.nodes = &nodes,
                                         .names = &names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = REPLY_MS,
                                         .retain_us = WAIT_MS * UINT64_C(1000),
                                         .look_interval_us = SELDOM_US,
                                         .folds = true};
    must(log_member_open(m, &o, &e), e);
    assert_int_equal(log_member_added(m, 0, KEYS), KEYS);
    assert_true(await_folded());
}

/* The address leads back before anybody has looked. */
static void test_what_is_folded__at_another_server_is_not_missing(void **state)
{
    static struct log_member m, later;
    struct log_status s;
    (void)state;
    open_seldom(&m);
    lead_to_replica(DATA);
    clock_sleep_us(BREAKS_US);
    assert_int_equal(log_member_added(&m, KEYS, KEYS), KEYS);
    control_status(m.control, &s);
    uint64_t looks = s.looks;
    bool folded = is_folded_within(SOON_MS);
    control_status(m.control, &s);
    print_message("folded there: %d, looks meanwhile: %d\n", folded, (int)(s.looks - looks));
    proxy_aim(proxy, route[DATA], server[DATA].port);
    assert_true(await_folded());
    log_members_open(&later, &nodes, &names, UINT64_MAX, true);
    assert_int_equal(log_member_count(&later, 0, KEYS, KEY_ABSENT), 0);
    assert_int_equal(log_member_count(&later, KEYS, KEYS, KEY_ABSENT), 0);
    log_member_abandon(&later);
    log_member_abandon(&m);
}

static folder_check_fn *check;
static unsigned checks_under_way;

/* The address leads back behind the writes of a fold, which the other server has answered. */
static enum err leads_back_first(void *arg, const struct folder *folder, struct error *e)
{
    if (checks_under_way++ == 0) {
        proxy_aim(proxy, route[DATA], server[DATA].port);
        clock_sleep_us(BREAKS_US);
    }
    return check(arg, folder, e);
}

static void test_what_a_fold_writes__before_the_address_leads_back_is_not_missing(void **state)
{
    static struct log_member m, later;
    (void)state;
    open_seldom(&m);
    log_member_pause(&m);
    struct folding *folding = &m.control->folding[view->current];
    assert_non_null(folding->held);
    check = folding->folder.check;
    folding->folder.check = leads_back_first;
    checks_under_way = 0;
    lead_to_replica(DATA);
    clock_sleep_us(BREAKS_US);
    assert_int_equal(log_member_added(&m, KEYS, KEYS), KEYS);
    log_member_go_on(&m);
    assert_true(await_folded());
    assert_true(checks_under_way > 0);
    log_members_open(&later, &nodes, &names, UINT64_MAX, true);
    assert_int_equal(log_member_count(&later, 0, KEYS, KEY_ABSENT), 0);
    assert_int_equal(log_member_count(&later, KEYS, KEYS, KEY_ABSENT), 0);
    log_member_abandon(&later);
    log_member_abandon(&m);
}

/* --- the metadata node and the lane --- */

static void open_short(struct log_member *m)
{
    struct error e = {""};
    const struct log_member_options o = {.nodes = &nodes,
                                         .names = &names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = REPLY_MS,
                                         .writer_grace_us = GRACE_US,
                                         .look_interval_us = OFTEN_US,
                                         .folds = true};
    must(log_member_open(m, &o, &e), e);
}

/* None of the keys is absent, until all are answered, and one that nobody has added, for which a lane is
 * read.
 * @patience: times a request may end without that. */
static void assert_none_is_absent(struct log_member *m, unsigned patience, unsigned keys)
{
    static uint8_t answers[7 * KEYS + 1];
    struct error e = {""};
    enum err code = ERR_BUSY;
    for (unsigned k = 0; k <= patience && code != ERR_OK; k++) {
        code = log_member_check(m, 0, keys + 1, answers, &e);
        for (unsigned i = 0; i < keys; i++)
            assert_int_not_equal(answers[i], KEY_ABSENT);
    }
    must(code, e);
}

/* Both are other servers for a while, where @adds adds keys, and has some of them folded. @checks has looked
 * there, and has not met all of these keys. */
static void lead_both_away(struct log_member *adds, struct log_member *checks)
{
    struct error e = {""};
    struct client c;
    static uint8_t answers[KEYS];
    open_short(adds);
    must(log_member_add(adds, 0, KEYS, answers, &e), e);
    assert_true(await_folded());
    open_short(checks);
    log_members_await_loaded(checks);
    must(client_open(&c, server[DATA].port, REPLY_MS, &e), e);
    must(client_ok(&c, &e, "DEBUG CHANGE-REPL-ID"), e); /* the id of a server is a history then */
    client_close(&c);
    must(log_member_add(adds, 0, KEYS, answers, &e), e);
    assert_int_equal(log_member_count(checks, NEVER, 1, KEY_ABSENT), 1);
    lead_to_replica(HOME);
    lead_to_replica(DATA);
    connect_again();
    clock_sleep_us(BREAKS_US);
    must(log_member_add(adds, KEYS, KEYS, answers, &e), e);
    assert_true(await_folded());
    assert_int_equal(log_member_count(checks, KEYS, KEYS, KEY_ABSENT), 0);
    assert_int_equal(log_member_count(checks, NEVER, 1, KEY_ABSENT), 1);
    must(log_member_add(adds, 2 * KEYS, KEYS, answers, &e), e);
}

static void lead_both_to(const struct temp_redis *servers)
{
    for (unsigned node = 0; node < NODES; node++)
        proxy_aim(proxy, route[node], servers[node].port);
    connect_again();
}

static void lead_a_sleeper_to(struct log_member *m, const struct temp_redis *servers)
{
    log_member_pause(m);
    lead_both_to(servers);
    clock_sleep_us(SOON_MS * UINT64_C(1000));
    log_member_go_on(m);
}

/* The lane's server is one that the view of before accepts, and it has not what was added. */
static void test_keys_that_were_added_elsewhere__are_added_again_first(void **state)
{
    static struct log_member adds, checks, later;
    (void)state;
    lead_both_away(&adds, &checks);
    lead_a_sleeper_to(&adds, server);
    assert_none_is_absent(&checks, 0, 3 * KEYS);
    open_short(&later);
    assert_none_is_absent(&later, 0, 3 * KEYS);
    log_member_close(&later);
    log_member_close(&checks);
    log_member_close(&adds);
}

/* Each of the servers accepts its lane's id. */
static void test_servers_that_are_used_in_turn__are_asked_each_time(void **state)
{
    static struct log_member adds, checks, later;
    static uint8_t answers[KEYS];
    struct error e = {""};
    (void)state;
    lead_both_away(&adds, &checks);
    for (unsigned turn = 3; turn < 7; turn++) {
        lead_a_sleeper_to(&adds, turn % 2 == 0 ? replica : server);
        assert_none_is_absent(&checks, 0, turn * KEYS);
        must(log_member_add(&adds, turn * KEYS, KEYS, answers, &e), e);
        assert_true(await_folded());
    }
    open_short(&later);
    assert_none_is_absent(&later, 0, 7 * KEYS);
    log_member_close(&later);
    log_member_close(&checks);
    log_member_close(&adds);
}

static void test_keys_that_nobody_adds_again__are_not_absent(void **state)
{
    static struct log_member adds, checks, later;
    struct error e = {""};
    (void)state;
    lead_both_away(&adds, &checks);
    log_member_abandon(&adds);
    lead_both_to(server);
    assert_none_is_absent(&checks, PATIENCE, 3 * KEYS);
    open_short(&later);
    assert_none_is_absent(&later, 0, 3 * KEYS);
    must(log_view_load(l, &names, view, &e), e);
    assert_true(view->degraded);
    log_member_close(&later);
    log_member_close(&checks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_build__that_began_again_at_another_home_has_no_key_lost,
                                        set_up_home_apart, tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_build_writes__at_another_server_does_not_count, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_build__writes_nothing_to_a_server_that_it_did_not_look_at,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_builder__that_takes_over_at_another_server_begins_anew, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_positions__that_went_back_are_stored_again, set_up_home_apart,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_folded__at_another_server_is_not_missing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_fold_writes__before_the_address_leads_back_is_not_missing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_that_were_added_elsewhere__are_added_again_first,
                                        set_up_home_apart, tear_down),
        cmocka_unit_test_setup_teardown(test_servers_that_are_used_in_turn__are_asked_each_time,
                                        set_up_home_apart, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_that_nobody_adds_again__are_not_absent, set_up_home_apart,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
