/* SPDX-License-Identifier: MIT */
/* An operator accepts that a shard is lost, on real servers. Wherever that is killed, the filter stays
 * degraded until it is done again. A late request of a process that slept does not hide a later loss. */
#include "tests/integration/lives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/members/lost.h"

enum { SHARD = 1, KILLED_MS = 300, LATE_US = 50 * 1000 };

static struct life w;

static int start(void **state)
{
    (void)state;
    return life_start(&w);
}

static int stop(void **state)
{
    (void)state;
    return life_stop(&w);
}

static enum err accept_loss(struct life *life, struct sync_client *l, struct error *e)
{
    uint64_t made;
    return lost_accept(l, &life->names, &made, e);
}

/* Send a command for the shard, with its key. */
static redisReply *on_shard(const char *command)
{
    struct error e = {""};
    struct placement placement;
    struct key_name key;
    redisReply *r = NULL;
    const struct generation *g = &w.view.slot[1].shape;
    must(placement_resolve(&placement, &w.names, g, &w.nodes, &e), e);
    names_log_shard(&w.names, (struct shard_id){g->number, 0, SHARD}, &key);
    must(sync_client_command(w.link, placement_where(&placement, 0, SHARD), &r, &e, command, key.text,
                             key.length),
         e);
    return r;
}

static void delete_shard(void)
{
    freeReplyObject(on_shard("UNLINK %b"));
}

/* Whether the shard exists, to its end. */
static bool is_there(void)
{
    redisReply *r = on_shard("GET %b");
    const struct geometry *g = &w.view.slot[1].shape.layers[0].geometry;
    uint16_t tag = hash_tag(w.names.incarnation, w.names.filter, w.names.filter_length, 1);
    bool there = r->type == REDIS_REPLY_STRING && r->len == header_shard_bytes(g);
    if (there) {
        const uint8_t *last = (const uint8_t *)r->str + r->len - g->block_bits / 8;
        there = (last[0] << 8 | last[1]) == tag;
    }
    freeReplyObject(r);
    return there;
}

static void degrade(void)
{
    struct error e = {""};
    struct key_name key;
    redisReply *r = NULL;
    const struct log_lost lost = {.generation = 1, .shard = SHARD};
    must(lost_say(w.link, &w.names, &lost, &e), e);
    names_filter_key(&w.names, "view", &key);
    must(sync_client_command(w.link, sync_client_home(w.link, &w.names), &r, &e, "HSET %b degraded 1",
                             key.text, key.length),
         e);
    freeReplyObject(r);
}

/* Make a filter that has lost a shard for good. */
static void begin(void)
{
    struct error e = {""};
    life_begin(&w, "f", 1);
    must(life_make(&w, w.link, &e), e);
    life_is_whole(&w, 0);
    delete_shard();
    degrade();
    assert_false(is_there());
}

static bool is_killed_at(uint64_t n, enum proxy_moment moment)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(&w.nodes, KILLED_MS, "twinbloom-job");
    proxy_count(w.proxy, "", n, moment);
    enum err code = accept_loss(&w, l, &e);
    bool held = proxy_is_held(w.proxy);
    if (!held)
        must(code, e);
    sync_client_free(l);
    proxy_release(w.proxy, false);
    return held;
}

static void test_accept__again_after_it_was_killed(void **state)
{
    struct error e = {""};
    (void)state;
    for (unsigned moment = PROXY_BEFORE; moment <= PROXY_AFTER; moment++) {
        uint64_t n = 1;
        for (bool killed = true; killed; n++) {
            begin();
            killed = is_killed_at(n, moment);
            must(log_view_load(w.link, &w.names, &w.view, &e), e);
            assert_true(w.view.degraded || is_there());
            must(accept_loss(&w, w.link, &e), e);
            life_is_whole(&w, 1); /* one more key: the tokens */
            life_end(&w);
        }
        assert_true(n > 10);
    }
}

/* Another process has accepted the loss meanwhile, and the shard is lost once more, which nobody has
 * accepted. */
static void test_accept__by_one_that_wakes_makes_nothing_up(void **state)
{
    static struct life_sleeper s;
    struct error e = {""};
    (void)state;
    for (unsigned moment = PROXY_BEFORE; moment <= PROXY_AFTER; moment++) {
        bool slept = true;
        for (uint64_t n = 1; slept; n++) {
            begin();
            slept = life_put_to_sleep(&s, &w, accept_loss, n, moment);
            must(accept_loss(&w, w.link, &e), e);
            life_is_whole(&w, 1);
            delete_shard();
            enum err code = life_wake(&s);
            assert_true(code == ERR_OK || code == ERR_LOST || code == ERR_FENCED);
            assert_false(is_there());
            life_end(&w);
        }
    }
}

/* Another process draws a token, finds the shard lost once more, and says so in the view, which says that of
 * it already. */
static void test_accept__under_an_earlier_token_accepts_no_later_loss(void **state)
{
    static struct life_sleeper s;
    static const struct log_lost lost = {.generation = 1, .shard = SHARD};
    struct error e = {""};
    struct fold f;
    bool slept = true;
    (void)state;
    for (uint64_t n = 1; slept; n++) {
        begin();
        slept = life_put_to_sleep(&s, &w, accept_loss, n, PROXY_BEFORE);
        if (slept) {
            delete_shard();
            fold_init(&f, w.link, &w.names, 1);
            must(fold_draw(&f, 1, &e), e);
            fold_fini(&f);
            must(lost_say(w.link, &w.names, &lost, &e), e);
        }
        enum err code = life_wake(&s);
        assert_true(code == ERR_OK || code == ERR_LOST || code == ERR_FENCED);
        must(log_view_load(w.link, &w.names, &w.view, &e), e);
        assert_true(w.view.slot[1].lost.generation == 1 || is_there());
        life_end(&w);
    }
}

/* Somebody was removed who did not answer a roll call: as remove_degraded.lua does. */
static void loses_more(void)
{
    struct error e = {""};
    struct key_name key;
    unsigned home = sync_client_home(w.link, &w.names);
    names_filter_key(&w.names, "view", &key);
    must(sync_client_command(w.link, home, NULL, &e, "HSET %b degraded 1", key.text, key.length), e);
    must(sync_client_command(w.link, home, NULL, &e, "HINCRBY %b version 1", key.text, key.length), e);
}

/* The operator was told an error, and did not accept again. */
static void test_accept__that_is_executed_late_accepts_no_later_loss(void **state)
{
    struct error e = {""};
    bool held = true;
    (void)state;
    for (uint64_t n = 1; held; n++) {
        begin();
        struct sync_client *l = sync_client_new(&w.nodes, KILLED_MS, "twinbloom-job");
        proxy_count(w.proxy, "", n, PROXY_BEFORE);
        enum err code = accept_loss(&w, l, &e);
        held = proxy_is_held(w.proxy);
        sync_client_free(l);
        must(log_view_load(w.link, &w.names, &w.view, &e), e);
        if (held && code != ERR_OK && w.view.degraded)
            loses_more();
        bool is_told = code == ERR_OK;
        proxy_release(w.proxy, true);
        clock_sleep_us(LATE_US);
        must(log_view_load(w.link, &w.names, &w.view, &e), e);
        assert_true(is_told || w.view.degraded);
        life_end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept__again_after_it_was_killed),
        cmocka_unit_test(test_accept__by_one_that_wakes_makes_nothing_up),
        cmocka_unit_test(test_accept__that_is_executed_late_accepts_no_later_loss),
        cmocka_unit_test(test_accept__under_an_earlier_token_accepts_no_later_loss),
    };
    return cmocka_run_group_tests_name("accepting a loss, two nodes", tests, start, stop);
}
