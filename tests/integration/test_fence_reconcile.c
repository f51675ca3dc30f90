/* SPDX-License-Identifier: MIT */
/* The home node comes back with older data, at every pair of states of a filter's life: the one that it had
 * saved and the one that was lost. In each state some coordinator loaded the view and was stopped; all of
 * them wake up before or after the view is reconciled. No key that was acknowledged is ever reported absent.
 */
#include "tests/integration/coordinator.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/reconcile.h"

enum { STATES_MAX = 9, KEYS = 40 /* added in each state */, FEW = 2, SHARDS = 6, TRIES = 10 };

static const struct filter_policy sourced = {.configured = true, .sourced = true};

static struct servers servers;
static struct filter f;
static struct view lived[STATES_MAX]; /* the view of each state */
static struct coordinator sleeper[STATES_MAX];
static unsigned states;            /* so far */
static unsigned keys;              /* so far */
static unsigned saved[STATES_MAX]; /* keys up to each state */

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

/* --- the home node's data --- */

static void copy_file(const char *from, const char *to)
{
    char command[2 * PATH_MAX + 16];
    (void)snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

static void dump_path(char out[PATH_MAX + 32], int at)
{
    const char *directory = servers.redis[0].directory;
    if (at < 0)
        (void)snprintf(out, PATH_MAX + 32, "%s/data/dump.rdb", directory);
    else
        (void)snprintf(out, PATH_MAX + 32, "%s/%d.rdb", directory, at);
}

static void save_home(int at)
{
    char from[PATH_MAX + 32], to[PATH_MAX + 32];
    struct error e = {""};
    must(client_save(&servers.client[0], &e), e);
    dump_path(from, -1);
    dump_path(to, at);
    copy_file(from, to);
}

static void restore_home(int at)
{
    struct error e = {""};
    char from[PATH_MAX + 32], to[PATH_MAX + 32];
    dump_path(from, at);
    dump_path(to, -1);
    temp_redis_kill(&servers.redis[0]);
    copy_file(from, to);
    must(temp_redis_restart(&servers.redis[0], true, &e), e);
    client_close(&servers.client[0]);
    must(client_open(&servers.client[0], servers.redis[0].port, 5000, &e), e);
    static struct view v;
    if (fence_load(&f.fence, &v, &e) != ERR_OK) /* the job's connection was cut */
        must(fence_load(&f.fence, &v, &e), e);
}

/* --- a filter's life --- */

static void add_layer(struct view *to, unsigned slot)
{
    struct error e = {""};
    struct generation *g = &to->slot[slot];
    struct layer *l = &g->layers[g->layer_count];
    *l = g->layers[0];
    l->token = TOKEN + g->layer_count;
    l->born_epoch = f.view.epoch + 1;
    g->layer_count++;
    must(fence_create(&f.fence, g, g->layer_count - 1, &e), e);
}

/* B: build begins, W: switch, F: finish or abort, R: rollback, O: a layer opens, L: it is written, X: a layer
 * of the generation that is built. */
static void change(char step, bool fenced)
{
    static struct view to;
    to = f.view;
    switch (step) {
    case 'B':
        filter_open(&f, SHARDS, fenced);
        return;
    case 'W':
        filter_cutover(&f, fenced);
        return;
    case 'F':
        filter_finish(&f, fenced);
        f.view.phase = phase_alone(view_current(&f.view)->layer_count);
        return;
    case 'R':
        to.phase = PHASE_BUILDING;
        to.current = 1 - to.current;
        break;
    case 'O':
        add_layer(&to, to.current);
        to.slot[to.current].opening = true;
        to.phase = PHASE_OVERFLOW_OPEN;
        break;
    case 'X':
        add_layer(&to, 1 - to.current);
        break;
    case 'L':
        to.slot[to.current].opening = false;
        to.phase = PHASE_OVERFLOW;
        break;
    default:
        fail_msg("no such step");
    }
    filter_change(&f, &to, fenced);
}

/* A loaded machine may be slow to answer. */
static enum err ask(struct coordinator *c, enum operation_kind kind, unsigned first, unsigned count,
                    unsigned tries)
{
    enum err code = ERR_TIMEOUT;
    for (unsigned i = 0; i < tries && (code == ERR_TIMEOUT || code == ERR_UNREACHABLE); i++)
        code = coordinator_ask(c, kind, first, count);
    return code;
}

static void add(struct coordinator *c, unsigned first, unsigned count)
{
    if (ask(c, OPERATION_ADD, first, count, TRIES) != ERR_OK)
        fail_msg("add: %s", c->error);
    assert_int_equal(coordinator_results(c, count, KEY_LOST), 0);
}

/* What a job does behind the change, and somebody who adds keys and falls asleep. */
static void live(char step, unsigned count)
{
    struct error e = {""};
    struct coordinator *c = &sleeper[states];
    if (step == 'B' && !view_unfenced(&f.view)) /* the scan */
        (void)filter_add(&f, &f.view.slot[1 - f.view.current], 0, keys);
    if (step == 'F' && !view_unfenced(&f.view))
        must(fence_retire(&f.fence, &f.view, MUTEX, &e), e);
    coordinator_open(c, &servers, sourced);
    add(c, keys, count);
    keys += count;
    saved[states] = keys;
    lived[states] = f.view;
    save_home((int)states);
    states++;
}

static void begin(void)
{
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    states = keys = 0;
    filter_make(&f, SHARDS);
    live('M', KEYS);
}

static void end(void)
{
    for (unsigned s = 0; s < states; s++)
        coordinator_close(&sleeper[s]);
    filter_fini(&f);
}

/* --- what must hold --- */

static void nobody_says_no(const char *path, unsigned from, unsigned count, const char *when)
{
    for (unsigned s = from; s < states; s++) {
        enum err code = ask(&sleeper[s], OPERATION_CHECK, 0, count, view_unfenced(&lived[s]) ? 1 : TRIES);
        if (code == ERR_TIMEOUT && view_unfenced(&lived[s]))
            continue; /* it waits for the end of a fence that is lost */
        if (code != ERR_OK)
            fail_msg("%s: the coordinator of state %u, %s: %s (%s)", path, s, when, error_name(code),
                     sleeper[s].error);
        unsigned no = coordinator_results(&sleeper[s], count, KEY_NO);
        if (no > 0)
            fail_msg("%s: the coordinator of state %u of %u says no to %u of %u keys, %s", path, s, states,
                     no, count, when);
    }
}

/* All strings of the incarnation lie under the names of the view. */
static void all_is_gathered(const char *path, const struct view *v)
{
    struct survey survey = {0};
    struct error e = {""};
    must(fence_survey(&f.fence, NULL, &survey, &e), e);
    for (size_t i = 0; i < survey.count; i++)
        if (survey.found[i].epoch != v->epoch || survey.found[i].generation != view_current(v)->number)
            fail_msg("%s: a shard of generation %llu lies under epoch %llu", path,
                     (unsigned long long)survey.found[i].generation,
                     (unsigned long long)survey.found[i].epoch);
    survey_fini(&survey);
}

static bool has(const struct view *v, uint64_t generation)
{
    return v->slot[0].number == generation || v->slot[1].number == generation;
}

/* The view of state @stored lies in Redis, that of the last state was the truth. */
static bool is_reconciled(const char *path, unsigned stored, unsigned remembered)
{
    struct error e = {""};
    static struct view v, to;
    struct reconcile_evidence found;
    uint64_t lost = 99;
    bool done = false;
    const struct view *base = &lived[remembered], *truth = &lived[states - 1];
    if (remembered > stored) {
        must(fence_put_back(&f.fence, base, &done, &e), e);
        assert_true(done);
        must(fence_put_back(&f.fence, &lived[stored], &done, &e), e);
        assert_false(done);
    }
    must(fence_load(&f.fence, &v, &e), e);
    assert_int_equal(v.epoch, base->epoch);
    must(fence_weigh(&f.fence, &v, &found, &e), e);
    if (!reconcile_is_due(&v, &found) && view_unfenced(truth) && stored + 2 == states)
        return false; /* no shard of another node has moved: lineages tell, not epochs */
    if (!reconcile_is_due(&v, &found))
        fail_msg("%s: stored %u, remembered %u: nothing was noticed", path, stored, remembered);
    gives(ERR_LOST, fence_may_begin(&f.fence, &v, &e), e);
    reconcile_decide(&v, &found, &to);
    must(fence_reconcile(&f.fence, &v, &to, MUTEX, &e), e);
    must(fence_complete(&f.fence, &to, &lost, &e), e);
    must(fence_load(&f.fence, &v, &e), e);
    assert_int_equal(v.fenced_epoch, to.epoch);
    assert_int_equal(v.recovery, RECOVERY_NONE);
    assert_true(v.last_generation > truth->last_generation);
    uint64_t kept = view_current(&v)->number, was = view_current(base)->number;
    if (has(truth, was) && kept != was)
        fail_msg("%s: stored %u, remembered %u: generation %llu is kept, not %llu", path, stored, remembered,
                 (unsigned long long)kept, (unsigned long long)was);
    if (!has(truth, was) && has(base, view_current(truth)->number))
        assert_int_equal(kept, view_current(truth)->number);
    bool whole = has(truth, kept) && has(&lived[stored], kept) &&
                 view_current(&v)->layer_count == lived[stored].slot[v.current].layer_count;
    if (whole && lost > 0)
        fail_msg("%s: stored %u, remembered %u: %llu shards are lost", path, stored, remembered,
                 (unsigned long long)lost);
    f.view = v;
    all_is_gathered(path, &v);
    return true;
}

/* What is added from now on is in the generation that is kept, by whomever. */
static void adds_are_kept(const char *path)
{
    for (unsigned s = 0; s < states; s++) {
        unsigned first = 10000 + s * KEYS;
        add(&sleeper[s], first, KEYS);
        if (coordinator_results(&sleeper[s], KEYS, KEY_NO) +
                coordinator_results(&sleeper[s], KEYS, KEY_YES) !=
            KEYS)
            fail_msg("%s: not all keys were acknowledged", path);
        nobody_says_no(path, 0, keys, "while keys are added");
        struct error e = {""};
        uint64_t lost = 0;
        must(fence_count_lost(&f.fence, &f.view, view_current(&f.view), &lost, &e), e);
        if (lost == 0)
            assert_int_equal(filter_check(&f, view_current(&f.view), first, KEYS), KEYS);
    }
}

/* Live through @path up to its @last state, where @fenced whole and else with few of its shards renamed, then
 * go back to
 * @stored; the latest state that anybody remembers is @remembered (@stored: nobody does). */
static void goes_back(const char *path, unsigned last, bool fenced, unsigned stored, unsigned remembered)
{
    begin();
    for (unsigned i = 0; i < last; i++) {
        bool whole = i + 1 < last || fenced;
        change(path[i], whole);
        live(path[i], whole ? KEYS : FEW);
    }
    restore_home((int)stored);
    nobody_says_no(path, stored + 1, keys,
                   "before anybody does anything"); /* later views are remembered there */
    nobody_says_no(path, 0, saved[stored], "though they were saved");
    if (is_reconciled(path, stored, remembered)) {
        nobody_says_no(path, 0, keys, "after the view is reconciled");
        adds_are_kept(path);
    }
    end();
}

static void every_pair(const char *path)
{
    unsigned length = (unsigned)strlen(path);
    for (unsigned last = 1; last <= length; last++)
        for (unsigned stored = 0; stored < last; stored++)
            for (unsigned remembered = stored; remembered <= last; remembered++)
                if (last == length ||
                    remembered == stored) /* pairs of shorter lives are in other paths, too */
                    for (int fenced = 0; fenced < 2; fenced++)
                        goes_back(path, last, fenced == 1, stored, remembered);
}

static void test_reconcile__an_expansion(void **state)
{
    (void)state;
    every_pair("BWF");
}

static void test_reconcile__an_abort_and_a_layer_of_the_new_generation(void **state)
{
    (void)state;
    every_pair("BXF");
}

static void test_reconcile__a_rollback(void **state)
{
    (void)state;
    every_pair("BWRF");
}

static void test_reconcile__two_expansions(void **state)
{
    (void)state;
    for (unsigned stored = 0; stored < 6; stored++)
        goes_back("BWFBWF", 6, true, stored, stored);
}

static void test_reconcile__layers(void **state)
{
    (void)state;
    every_pair("OLO");
    goes_back("OLBWF", 5, true, 1, 1);
}

/* A node of the list is away that has nothing of the filter. */
static void test_may_begin__needs_all_nodes_only_where_home_may_have_forgotten(void **state)
{
    (void)state;
    static struct view v;
    struct error e = {""};
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    must(fence_load(&f.fence, &v, &e), e);
    assert_true(v.trusted.known && v.slot[v.current].node_count == 2);
    process_signal(&servers.redis[1].process, SIGSTOP);
    enum err both = fence_may_begin(&f.fence, &v, &e);
    v.slot[v.current].node_count = 1;
    enum err one = fence_may_begin(&f.fence, &v, &e);
    v.trusted.count = 0; /* home is of another lineage: the filter may have moved since */
    enum err forgot = fence_may_begin(&f.fence, &v, &e);
    process_signal(&servers.redis[1].process, SIGCONT);
    assert_true(both == ERR_TIMEOUT || both == ERR_UNREACHABLE);
    assert_int_equal(one, ERR_OK);
    assert_true(forgot == ERR_TIMEOUT || forgot == ERR_UNREACHABLE);
    filter_fini(&f);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reconcile__an_expansion),
        TEST(test_reconcile__an_abort_and_a_layer_of_the_new_generation),
        TEST(test_reconcile__a_rollback),
        TEST(test_reconcile__two_expansions),
        TEST(test_reconcile__layers),
        TEST(test_may_begin__needs_all_nodes_only_where_home_may_have_forgotten),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
