/* SPDX-License-Identifier: MIT */
/* Shards of a filter on the log are lost in Redis: a process that has them in memory makes them again; if no
 * process has, the filter is degraded. */
#include "tests/integration/log_redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/request/log_filter_state.h"
#include "shard/members/lost.h"
#include "shard/members/remove.h"
#include "shard/view/view_load.h"

enum {
    REPLY_MS = 5000,
    MEMBERS = 4,
    ALL = 4000,
    DEADLINE_US = 10 * 1000 * 1000,
    GRACE_US = 500 * 1000,
    RETAIN_US = 60 * 1000 * 1000
};

static struct log_member member[MEMBERS];
static unsigned opened;
static uint64_t look_us;      /* of members that are opened; 0: the default */
static struct key_name shard; /* the lost shard */

static const struct log_view *stored(void)
{
    struct error e = {""};
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    return on.view;
}

static struct log_member *open_member(uint64_t memory, bool folds)
{
    struct log_member *m = &member[opened++];
    struct error e = {""};
    const struct log_member_options o = {.nodes = &on.nodes,
                                         .names = &on.names,
                                         .memory = memory,
                                         .timeout_ms = REPLY_MS,
                                         .retain_us = RETAIN_US,
                                         .writer_grace_us = GRACE_US,
                                         .look_interval_us = look_us,
                                         .folds = folds};
    must(log_member_open(m, &o, &e), e);
    return m;
}

static long long command(const char *what, const char *more)
{
    redisReply *r = client_command(&on.client, what, shard.text, shard.length, more);
    assert_true(r != NULL && r->type == REDIS_REPLY_INTEGER);
    long long n = r->integer;
    freeReplyObject(r);
    return n;
}

static void set_field(const char *name, const char *value)
{
    struct key_name key;
    names_filter_key(&on.names, "view", &key);
    freeReplyObject(client_command(&on.client, "HSET %b %s %s", key.text, key.length, name, value));
}

/* True: all added keys are in the shards. */
static bool is_folded(void)
{
    char id[LOG_ID_TEXT_MAX];
    struct key_name lane;
    lane_key(&lane, &on.names, 0, 1);
    redisReply *r = client_command(&on.client, "XREVRANGE %b + - COUNT 1", lane.text, lane.length);
    const struct log_view *v = stored();
    (void)log_id_format(v->slot[v->current].folded[0].position.id, id);
    bool folded = r->elements == 1 && strcmp(r->element[0]->element[0]->str, id) == 0;
    freeReplyObject(r);
    return folded;
}

static bool is_there(void)
{
    return command("EXISTS %b", NULL) == 1;
}

static bool is_degraded(void)
{
    return stored()->degraded;
}

static bool is_not_lost(void)
{
    const struct log_view *v = stored();
    return v->slot[v->current].lost.generation == 0;
}

static void wait_until(bool (*is_so)(void), const char *what)
{
    uint64_t until = clock_mono_us() + DEADLINE_US;
    while (!is_so())
        if (clock_mono_us() > until)
            fail_msg("%s; %s; %s", what, member[0].last.text, member[1].last.text);
        else
            clock_sleep_us(5000);
}
#define wait_until(is_so) wait_until(is_so, #is_so)

static int set_up(void **state)
{
    (void)state;
    opened = 0;
    look_us = 0;
    shard = (struct key_name){.length = 0}; /* a text */
    log_redis_make(100000, 1, 32768);
    const struct log_view *v = stored();
    names_log_shard(&on.names, (struct shard_id){v->slot[v->current].shape.number, 0, 3}, &shard);
    assert_true(is_there());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (opened > 0)
        log_member_abandon(&member[--opened]); /* nobody may be left who folds its entries */
    return 0;
}

/* Add without checking "new": a view that changes meanwhile makes it unsure if shards are not in memory. */
static void add(struct log_member *m, uint64_t first, unsigned count)
{
    uint8_t answers[ALL];
    struct error e = {""};
    must(log_member_add(m, first, count, answers, &e), e);
}

/* Wait until a member has all shards in memory for which it has room. */
static void load(struct log_member *m)
{
    struct resident_status s = {0};
    uint64_t until = clock_mono_us() + DEADLINE_US;
    assert_int_equal(log_member_count(m, ALL, ALL, KEY_ABSENT), ALL);
    while (s.resident == 0 || s.resident < s.shards) {
        assert_true(clock_mono_us() < until);
        (void)pthread_rwlock_rdlock(&m->filter->lock);
        resident_status(m->filter->slot[m->filter->current]->resident, &s);
        (void)pthread_rwlock_unlock(&m->filter->lock);
        clock_sleep_us(1000);
    }
}

/* A new member finds all added keys, and no others. */
static void all_is_there(void)
{
    struct log_member *m = open_member(UINT64_MAX, false);
    assert_int_equal(log_member_count(m, 0, ALL, KEY_PRESENT), ALL);
    assert_true(log_member_count(m, ALL, ALL, KEY_ABSENT) > ALL - 10);
}

/* --- tests --- */

static void test_a_lost_shard__comes_back_from_the_folders_memory(void **state)
{
    (void)state;
    struct log_member *a = open_member(UINT64_MAX, true);
    load(a);
    add(a, 0, ALL / 2);
    wait_until(is_folded);
    assert_int_equal(command("DEL %b", NULL), 1);
    add(a, ALL / 2, ALL / 2);
    wait_until(is_there);
    wait_until(is_folded);
    wait_until(is_not_lost);
    assert_false(is_degraded());
    all_is_there();
}

static void test_a_shard_that_the_folder_has_not__is_made_by_who_has_it(void **state)
{
    (void)state;
    struct log_member *a = open_member(0, true), *b = open_member(UINT64_MAX, false);
    load(b);
    add(a, 0, ALL / 2);
    add(b, ALL / 2, ALL / 4);
    add(a, ALL / 4 * 3, ALL / 8); /* b has not read these keys yet */
    wait_until(is_folded);
    assert_int_equal(command("DEL %b", NULL), 1);
    add(a, ALL / 8 * 7, ALL / 8); /* waits for the shard */
    wait_until(is_there);
    wait_until(is_folded);
    wait_until(is_not_lost);
    assert_false(is_degraded());
    all_is_there();
}

/* A process without the shard in memory waits for it. */
static void test_a_check_of_a_lost_shard__waits_for_it(void **state)
{
    (void)state;
    struct log_member *a = open_member(UINT64_MAX, true);
    load(a);
    add(a, 0, ALL);
    wait_until(is_folded);
    assert_int_equal(command("DEL %b", NULL), 1);
    struct log_member *b = open_member(0, false);
    assert_int_equal(log_member_count(b, 0, ALL, KEY_PRESENT), ALL);
    assert_true(log_member_count(b, ALL, ALL, KEY_ABSENT) > ALL - 10);
    wait_until(is_not_lost);
    all_is_there();
}

/* The idle process answers from memory, and has added nothing: it only reads the view now and then. */
static void test_a_shard_that_only_an_idle_process_has__comes_back(void **state)
{
    (void)state;
    look_us = 300 * 1000;
    struct log_member *idle = open_member(UINT64_MAX, true), *a = open_member(0, true);
    load(idle);
    add(a, 0, ALL);
    wait_until(is_folded);
    assert_int_equal(log_member_count(idle, 0, ALL, KEY_PRESENT), ALL);
    log_member_close(a);
    opened--;
    assert_int_equal(stored()->writer_count, 0);
    assert_int_equal(command("DEL %b", NULL), 1);
    assert_int_equal(log_member_count(idle, 0, ALL, KEY_PRESENT), ALL); /* needs no shard in Redis */
    assert_false(is_there());
    struct log_member *b = open_member(0, true);
    add(b, 0, ALL); /* b becomes a writer, so it reads the view more often */
    assert_true(is_there());
    wait_until(is_not_lost);
    assert_false(is_degraded());
    assert_int_equal(log_member_count(b, 0, ALL, KEY_PRESENT), ALL);
    all_is_there();
}

/* Doubt @m while it writes. Returns how often it has answered before all shards were there. */
static unsigned doubted(const struct log_member *m)
{
    struct error e = {""};
    struct roll r;
    unsigned answers = 0;
    uint64_t doubted = 0;
    roll_init(&r, on.link, &on.names, m->filter->writer);
    while (!is_not_lost()) {
        const struct log_writer *w = log_view_writer(on.view, m->filter->writer);
        assert_non_null(w);
        answers += doubted != 0 && w->registration > doubted;
        if (w->in_doubt)
            continue;
        doubted = w->registration;
        enum err code = remove_doubt(&r, w, &e);
        assert_true(code == ERR_OK || code == ERR_FENCED || code == ERR_NOT_FOUND);
    }
    roll_fini(&r);
    return answers;
}

/* The writer reads no view meanwhile, and the doubt asks whether it is alive. */
static void test_a_writer_that_makes_many_shards_again__says_that_it_is_there(void **state)
{
    struct error e = {""};
    uint8_t answers[1];
    (void)state;
    log_redis_make(2000000, 1, 1024);
    struct log_member *a = open_member(UINT64_MAX, false);
    look_us = 1000 * 1000;
    struct log_member *b = open_member(0, false);
    load(a);
    add(a, 0, ALL / 2);
    const struct log_view *v = stored();
    const struct generation *g = &v->slot[v->current].shape;
    for (uint32_t s = 0; s < g->layers[0].geometry.shards; s++) {
        struct key_name name;
        names_log_shard(&on.names, (struct shard_id){g->number, 0, s}, &name);
        freeReplyObject(client_command(&on.client, "DEL %b", name.text, name.length));
        if (s == 0)
            shard = name;
    }
    const struct log_lost lost = {.generation = g->number};
    must(lost_say(on.link, &on.names, &lost, &e), e);
    wait_until(is_there);
    assert_true(doubted(a) > 1);
    assert_false(is_degraded());
    enum err code = log_member_ask(b, false, (const uint64_t[]){1}, 1, answers, &e);
    assert_true(code == ERR_OK && answers[0] == KEY_PRESENT);
}

/* As if its maker had stopped: the shard's end is blank. */
static void blank_its_end(void)
{
    const struct log_view *v = stored();
    const struct geometry *g = &v->slot[v->current].shape.layers[0].geometry;
    uint32_t half = header_shard_bytes(g) / 2 / 64 * 64, rest = header_shard_bytes(g) - half;
    char *zeros = calloc(rest, 1);
    freeReplyObject(
        client_command(&on.client, "SETRANGE %b %u %b", shard.text, shard.length, half, zeros, rest));
    free(zeros);
}

static void test_a_shard_that_was_made_half__is_made_again(void **state)
{
    (void)state;
    struct log_member *a = open_member(UINT64_MAX, true);
    load(a);
    add(a, 0, ALL);
    wait_until(is_folded);
    blank_its_end();
    struct log_member *b = open_member(0, false);
    assert_int_equal(log_member_count(b, 0, ALL, KEY_PRESENT), ALL);
    wait_until(is_not_lost);
    all_is_there();
}

/* The shard's end is intact, and a block in the middle is damaged. */
static void test_a_shard_that_is_damaged__is_made_again(void **state)
{
    (void)state;
    struct log_member *a = open_member(UINT64_MAX, true);
    load(a);
    add(a, 0, ALL);
    wait_until(is_folded);
    const struct log_view *v = stored();
    const struct geometry *g = &v->slot[v->current].shape.layers[0].geometry;
    for (uint32_t at = 1; at < g->blocks; at++) {
        if (at < g->blocks / 2)
            freeReplyObject(client_command(&on.client, "SETRANGE %b %u %b", shard.text, shard.length,
                                           at * g->block_bits / 8, "\0\0", (size_t)2));
    }
    struct log_member *b = open_member(0, false);
    assert_int_equal(log_member_count(b, 0, ALL, KEY_PRESENT), ALL);
    wait_until(is_not_lost);
    all_is_there();
}

static enum err accept_it(uint64_t *made, struct error *e)
{
    return lost_accept(on.link, &on.names, made, e);
}

/* Two processes without memory have added keys, all of which are folded; then the shard is lost. */
static struct log_member *lose_for_good(void)
{
    struct log_member *a = open_member(0, true), *b = open_member(0, false);
    add(a, 0, ALL / 2);
    add(b, ALL / 2, ALL / 2);
    wait_until(is_folded);
    assert_int_equal(command("DEL %b", NULL), 1);
    assert_int_equal(log_member_count(b, 0, ALL, KEY_ABSENT), 0); /* waits until the filter is degraded */
    assert_true(is_degraded());
    assert_false(is_not_lost());
    assert_false(is_there());
    return b;
}

/* No key is reported absent, and adds go on. */
static void test_a_shard_that_nobody_has__degrades_the_filter(void **state)
{
    (void)state;
    struct log_member *b = lose_for_good();
    add(b, ALL, ALL / 2);
    assert_int_equal(log_member_count(b, 0, ALL, KEY_ABSENT), 0);
    assert_int_equal(log_member_count(b, ALL, ALL, KEY_ABSENT), 0);
    assert_true(is_degraded());
    assert_false(is_there());
}

/* The process that had the shard ended while it made it again: requests do not wait for blank blocks. */
static void test_a_shard_that_was_made_half_and_nobody_has__degrades_the_filter(void **state)
{
    struct error e = {""};
    uint64_t made = 0;
    (void)state;
    struct log_member *a = open_member(0, true), *b = open_member(0, false);
    add(a, 0, ALL / 2);
    add(b, ALL / 2, ALL / 2);
    wait_until(is_folded);
    blank_its_end();
    assert_int_equal(log_member_count(b, 0, ALL, KEY_ABSENT), 0);
    assert_true(is_degraded());
    add(b, ALL, ALL / 2);
    assert_int_equal(log_member_count(open_member(UINT64_MAX, false), 0, ALL, KEY_ABSENT), 0);
    must(accept_it(&made, &e), e);
    assert_int_equal(made, 1);
    assert_false(is_degraded());
    assert_int_equal(log_member_count(b, ALL, ALL / 2, KEY_PRESENT), ALL / 2);
}

/* The process that had the shard in memory is dead, and is still in the register of writers. */
static void test_a_shard_that_only_a_dead_writer_had__degrades_the_filter(void **state)
{
    uint64_t keys[ALL / 10];
    uint8_t answers[ALL / 10];
    struct error e = {""};
    (void)state;
    struct log_member *a = open_member(UINT64_MAX, false), *b = open_member(0, true);
    load(a);
    add(a, 0, ALL / 2);
    add(b, ALL / 2, ALL / 2);
    wait_until(is_folded);
    log_member_pause(a);
    assert_int_equal(command("DEL %b", NULL), 1);
    for (unsigned i = 0; i < ALL / 10; i++)
        keys[i] = i;
    enum err code =
        log_member_ask(b, false, keys, ALL / 10, answers, &e); /* one of these keys is in the lost shard */
    assert_true(code == ERR_OK || code == ERR_TIMEOUT);
    wait_until(is_degraded);
    assert_int_equal(log_member_count(b, 0, ALL, KEY_ABSENT), 0);
    log_member_go_on(a);
}

/* Waiting requests go on in the middle of the control's turn; the status is complete at its end. */
static void wait_for_status(struct log_member *m, struct log_status *s)
{
    uint64_t until = clock_mono_us() + DEADLINE_US;
    do {
        clock_sleep_us(1000);
        control_status(m->control, s);
    } while (s->lost.since_ms == 0 && clock_mono_us() < until);
}

/* The status has the shard, the time of the loss, and the remedy. */
static void test_a_shard_that_nobody_has__stands_in_the_status(void **state)
{
    struct log_status s;
    (void)state;
    uint64_t before = clock_wall_us() / 1000;
    struct log_member *b = lose_for_good(), *late = open_member(0, false);
    wait_for_status(b, &s);
    assert_int_equal(s.remedy, LOST_HEALED_BY_OPERATOR);
    assert_non_null(strstr(lost_remedy_text(s.remedy), "accept"));
    assert_int_equal(s.lost.count, 1);
    assert_int_equal(s.lost.named, 1);
    assert_true(s.lost.shard[0].layer == 0 && s.lost.shard[0].shard == 3);
    assert_true(s.lost.since_ms >= before && s.lost.since_ms <= clock_wall_us() / 1000);
    uint64_t since = s.lost.since_ms;
    assert_int_equal(log_member_count(late, 0, ALL, KEY_ABSENT), 0);
    wait_for_status(late, &s);
    assert_int_equal(s.lost.since_ms, since);
    assert_int_equal(s.remedy, LOST_HEALED_BY_OPERATOR);
    set_field("sourced", "1");
    assert_int_equal(lost_remedy(stored()), LOST_HEALED_BY_BUILD);
    assert_non_null(strstr(lost_remedy_text(LOST_HEALED_BY_BUILD), "rebuild"));
    set_field("degraded", "0");
    assert_int_equal(lost_remedy(stored()), LOST_HEALED_BY_MEMORY);
    set_field("degraded", "1");
    set_field("sourced", "0");
}

/* Entries that are not folded yet stay, and so do keys of other shards. */
static void test_an_operator__has_it_made_empty(void **state)
{
    struct error e = {""};
    struct log_status s;
    uint64_t made = 0;
    (void)state;
    struct log_member *b = lose_for_good();
    add(b, ALL, ALL / 2);
    must(accept_it(&made, &e), e);
    assert_int_equal(made, 1);
    assert_false(is_degraded());
    wait_until(is_not_lost); /* who missed it before may say so once more, and then finds it */
    assert_true(is_there());
    assert_int_equal(log_member_count(b, ALL, ALL / 2, KEY_PRESENT), ALL / 2);
    unsigned there = log_member_count(b, 0, ALL, KEY_PRESENT);
    assert_true(there > ALL / 2 && there < ALL);
    assert_int_equal(log_member_count(b, 0, ALL, KEY_ABSENT), ALL - there);
    add(b, 2 * ALL, ALL / 2);
    wait_until(is_folded);
    struct log_member *c = open_member(UINT64_MAX, false);
    assert_int_equal(log_member_count(c, ALL, ALL / 2, KEY_PRESENT), ALL / 2);
    assert_int_equal(log_member_count(c, 2 * ALL, ALL / 2, KEY_PRESENT), ALL / 2);
    control_status(c->control, &s);
    assert_int_equal(s.remedy, LOST_NOTHING);
    assert_int_equal(s.lost.since_ms, 0);
    must(accept_it(&made, &e), e); /* nothing more is lost */
    assert_int_equal(made, 0);
}

static void test_a_loss__is_accepted_only_where_nothing_else_heals_it(void **state)
{
    struct error e = {""};
    uint64_t made;
    const struct log_view *v = stored();
    const struct log_lost lost = {.generation = v->slot[v->current].shape.number, .shard = 3};
    (void)state;
    assert_int_equal(command("DEL %b", NULL), 1);
    must(lost_say(on.link, &on.names, &lost, &e), e);
    gives(ERR_BUSY, accept_it(&made, &e), e); /* a process may have the shard */
    set_field("degraded", "1");
    set_field("sourced", "1");
    gives(ERR_CONFLICT, accept_it(&made, &e), e);
    assert_non_null(strstr(e.text, "rebuild"));
    set_field("sourced", "0");
    char eras[64];
    (void)snprintf(eras, sizeof(eras), "%016llx", (unsigned long long)stored()->eras.id[0]);
    set_field("eras", "00000000000000aa");
    gives(ERR_BUSY, accept_it(&made, &e), e);
    set_field("eras", eras);
    assert_int_equal(command("RPUSH %b %s", "theirs"), 1);
    gives(ERR_CONFLICT, accept_it(&made, &e), e);
    assert_non_null(strstr(e.text, shard.text));
    assert_true(is_degraded());
    assert_false(is_not_lost());
    assert_int_equal(command("LLEN %b", NULL), 1);
    assert_int_equal(command("DEL %b", NULL), 1);
    assert_false(is_there());
    must(accept_it(&made, &e), e);
    assert_int_equal(made, 1);
    set_field("deleting", "1");
    gives(ERR_NOT_FOUND, accept_it(&made, &e), e);
}

/* A key with a shard's name and another type is not changed. */
static void test_a_foreign_key__is_left_as_it_is(void **state)
{
    (void)state;
    struct log_member *a = open_member(UINT64_MAX, true);
    load(a);
    add(a, 0, ALL / 2);
    wait_until(is_folded);
    assert_int_equal(command("DEL %b", NULL), 1);
    assert_int_equal(command("RPUSH %b %s", "theirs"), 1);
    names_log_shard(&on.names, (struct shard_id){stored()->slot[1].shape.number, 0, 4}, &shard);
    assert_int_equal(command("DEL %b", NULL), 1);
    add(a, ALL / 2, ALL / 2);
    wait_until(is_there);
    names_log_shard(&on.names, (struct shard_id){stored()->slot[1].shape.number, 0, 3}, &shard);
    assert_int_equal(command("LLEN %b", NULL), 1);
    assert_int_equal(log_member_count(a, 0, ALL, KEY_PRESENT), ALL);
    assert_int_equal(command("DEL %b", NULL), 1);
    wait_until(is_there);
    wait_until(is_folded);
    all_is_there();
}

/* The process with the shard in memory cannot write it, and the other one cannot answer without it. */
static void test_a_foreign_key_that_somebody_cannot_do_without__degrades_the_filter(void **state)
{
    (void)state;
    struct log_member *a = open_member(UINT64_MAX, true), *b = open_member(0, false);
    load(a);
    add(a, 0, ALL / 2);
    add(b, ALL / 2, ALL / 2);
    wait_until(is_folded);
    freeReplyObject(client_command(&on.client, "SET %b theirs", shard.text, shard.length));
    uint8_t answers[ALL];
    struct error e = {""};
    if (log_member_check(b, 0, ALL, answers, &e) == ERR_OK) /* the filter was degraded meanwhile */
        assert_true(is_degraded());
    wait_until(is_degraded);
    must(log_member_check(b, 0, ALL, answers, &e), e);
    for (unsigned i = 0; i < ALL; i++)
        assert_true(answers[i] == KEY_PRESENT || answers[i] == KEY_MAYBE);
    assert_int_equal(command("STRLEN %b", NULL), 6);
    assert_int_equal(log_member_count(a, 0, ALL, KEY_PRESENT), ALL);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_lost_shard__comes_back_from_the_folders_memory),
        TEST(test_a_shard_that_the_folder_has_not__is_made_by_who_has_it),
        TEST(test_a_shard_that_only_an_idle_process_has__comes_back),
        TEST(test_a_writer_that_makes_many_shards_again__says_that_it_is_there),
        TEST(test_a_check_of_a_lost_shard__waits_for_it),
        TEST(test_a_shard_that_was_made_half__is_made_again),
        TEST(test_a_shard_that_is_damaged__is_made_again),
        TEST(test_a_shard_that_nobody_has__degrades_the_filter),
        TEST(test_a_shard_that_was_made_half_and_nobody_has__degrades_the_filter),
        TEST(test_a_shard_that_only_a_dead_writer_had__degrades_the_filter),
        TEST(test_a_shard_that_nobody_has__stands_in_the_status),
        TEST(test_an_operator__has_it_made_empty),
        TEST(test_a_loss__is_accepted_only_where_nothing_else_heals_it),
        TEST(test_a_foreign_key__is_left_as_it_is),
        TEST(test_a_foreign_key_that_somebody_cannot_do_without__degrades_the_filter),
    };
    return cmocka_run_group_tests_name("lost shards", tests, log_redis_start, log_redis_stop);
}
