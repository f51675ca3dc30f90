/* SPDX-License-Identifier: MIT */
/* A filter without a source lost its view, as home came back empty, and a maker that was killed has left a
 * record: of a filter that it would have been refused to make, or of one that never was. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

enum { KEYS = 100, REPLY_MS = 10000 };
#define NAME "u"

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 2, .daemons = 2});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* --- nodes --- */

static redisReply *node(unsigned i, const char *format, ...)
{
    struct client c;
    struct error e = {""};
    va_list arguments;
    must(client_open(&c, fixture.redis[i].port, REPLY_MS, &e), e);
    va_start(arguments, format);
    redisReply *r = redisvCommand(c.redis, format, arguments);
    va_end(arguments);
    assert_non_null(r);
    assert_int_not_equal(r->type, REDIS_REPLY_ERROR);
    client_close(&c);
    return r;
}

/* Write, as of @incarnation, the record of the fields of @view. */
static void write_record(const redisReply *view, const char *incarnation)
{
    for (size_t i = 0; i + 1 < view->elements; i += 2) {
        const char *field = view->element[i]->str;
        const char *value = strcmp(field, "incarnation") == 0 ? incarnation : view->element[i + 1]->str;
        freeReplyObject(node(0, "HSET twinbloom:{" NAME "}:leftover %s %s", field, value));
    }
}

static void name_as(unsigned i, const char *incarnation)
{
    freeReplyObject(node(i, "HSET twinbloom:incarnations " NAME " %s {complete} 1", incarnation));
}

/* --- coordinators --- */

static uint64_t absent(unsigned d)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_mexists(&fixture.client[d], NAME, fixture_code, 0, KEYS, &present, NULL, &e), e);
    return KEYS - present;
}

static void stop_daemons(void)
{
    for (unsigned d = 0; d < 2; d++) {
        client_close(&fixture.client[d]);
        daemon_kill(&fixture.daemon[d]);
    }
}

static void start_daemons(void)
{
    struct error e = {""};
    for (unsigned d = 0; d < 2; d++) {
        must(daemon_launch(&fixture.daemon[d], &e), e);
        must(client_open(&fixture.client[d], fixture.daemon[d].port, REPLY_MS, &e), e);
    }
}

/* Make a filter with keys, stop the coordinators, and note its view. @later: an incarnation behind its own.
 */
static redisReply *make(char later[17])
{
    struct error e = {""};
    must(client_ok(&fixture.client[0], &e, "BF.RESERVE " NAME " 0.0001 1000"), e);
    must(client_madd(&fixture.client[0], NAME, fixture_code, 0, KEYS, &e), e);
    assert_int_equal(absent(1), 0);
    stop_daemons();
    redisReply *view = node(0, "HGETALL twinbloom:{" NAME "}:view");
    redisReply *incarnation = node(0, "HGET twinbloom:{" NAME "}:view incarnation");
    uint64_t number = strtoull(incarnation->str, NULL, 16);
    (void)snprintf(later, 17, "%016" PRIx64, number + 1);
    freeReplyObject(incarnation);
    return view;
}

/* Whoever makes the filter waits for the mutex first, aside from requests. */
static void expect_refused(unsigned d)
{
    freeReplyObject(node(0, "SET twinbloom:{" NAME "}:expansion_flag somebody:1 PX 300"));
    redisReply *r = client_command(&fixture.client[d], "TB.INIT " NAME " 0.0001 1000");
    assert_non_null(r);
    if (r->type != REDIS_REPLY_ERROR || strstr(r->str, "lost its view") == NULL)
        fail_msg("TB.INIT said %s", r->type == REDIS_REPLY_INTEGER ? "1" : r->str);
    freeReplyObject(r);
}

static void is_lost(void)
{
    for (unsigned d = 0; d < 2; d++)
        assert_int_equal(absent(d), 0);
    for (unsigned d = 0; d < 2; d++)
        expect_refused(d);
    for (unsigned d = 0; d < 2; d++)
        assert_int_equal(absent(d), 0);
    struct error e = {""}; /* an operator may */
    must(client_ok(&fixture.client[0], &e, "BF.RESERVE " NAME " 0.0001 1000"), e);
    assert_int_equal(absent(0), KEYS);
    must(client_madd(&fixture.client[1], NAME, fixture_code, 0, KEYS, &e), e);
    assert_int_equal(absent(0), 0);
    int64_t deleted = 0;
    must(client_integer(&fixture.client[0], &deleted, &e, "DEL " NAME), e);
    assert_int_equal(deleted, 1);
}

/* --- tests --- */

static void test_a_lost_filter__is_not_made_where_a_maker_left_its_record(void **state)
{
    (void)state;
    char later[17];
    redisReply *view = make(later);
    freeReplyObject(node(0, "FLUSHALL"));
    write_record(view, later);
    freeReplyObject(view);
    start_daemons();
    is_lost();
}

/* The maker was killed between naming it at home and seeing that another master names it. */
static void test_a_lost_filter__is_not_made_where_a_maker_has_named_it_too(void **state)
{
    (void)state;
    char later[17];
    redisReply *view = make(later);
    freeReplyObject(node(0, "FLUSHALL"));
    write_record(view, later);
    freeReplyObject(view);
    name_as(0, later);
    start_daemons();
    is_lost();
}

static void test_a_filter_that_never_was__is_made_where_a_maker_left_its_record_and_name(void **state)
{
    (void)state;
    struct error e = {""};
    char later[17];
    redisReply *view = make(later);
    for (unsigned i = 0; i < 2; i++)
        freeReplyObject(node(i, "FLUSHALL"));
    write_record(view, later);
    freeReplyObject(view);
    for (unsigned i = 0; i < 2; i++)
        name_as(i, later);
    start_daemons();
    for (unsigned d = 0; d < 2; d++)
        assert_int_equal(absent(d), KEYS);
    must(client_madd(&fixture.client[1], NAME, fixture_code, 0, KEYS, &e), e);
    for (unsigned d = 0; d < 2; d++)
        assert_int_equal(absent(d), 0);
}

/* The number of filters that TB.STATUS lists under NAME. */
static unsigned listed(unsigned d)
{
    unsigned count = 0;
    redisReply *r = client_command(&fixture.client[d], "TB.STATUS");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    for (size_t i = 0; i < r->elements; i++) {
        const redisReply *f = r->element[i];
        assert_true(f->elements >= 2);
        assert_string_equal(f->element[0]->str, "filter");
        count += strcmp(f->element[1]->str, NAME) == 0;
    }
    freeReplyObject(r);
    return count;
}

/* It is not in Redis any more, but those who had it say so: to an operator, too. */
static void test_a_lost_filter__is_shown_by_those_who_had_it(void **state)
{
    (void)state;
    struct error e = {""};
    char problem[512];
    freeReplyObject(make((char[17]){""}));
    start_daemons();
    for (unsigned d = 0; d < 2; d++) {
        assert_int_equal(absent(d), 0);
        assert_int_equal(listed(d), 1);
    }
    for (unsigned i = 0; i < 2; i++)
        freeReplyObject(node(i, "FLUSHALL"));
    for (unsigned d = 0; d < 2; d++) {
        must(client_wait_status(&fixture.client[d], NAME, "state", "degraded", REPLY_MS, &e), e);
        must(client_status(&fixture.client[d], NAME, "problem", problem, sizeof(problem), &e), e);
        assert_non_null(strstr(problem, "BF.RESERVE creates it again, empty"));
        assert_int_equal(listed(d), 1);
    }
    must(client_ok(&fixture.client[0], &e, "BF.RESERVE " NAME " 0.0001 1000"), e);
    for (unsigned d = 0; d < 2; d++) {
        must(client_wait_status(&fixture.client[d], NAME, "state", "serving", REPLY_MS, &e), e);
        enum err code = ERR_OK; /* until the controller's next round */
        for (unsigned i = 0; i < 1000 && code == ERR_OK; i++) {
            code = client_status(&fixture.client[d], NAME, "problem", problem, sizeof(problem), &e);
            clock_sleep_us(10 * 1000);
        }
        assert_int_equal(code, ERR_NOT_FOUND);
        assert_int_equal(listed(d), 1);
    }
    int64_t deleted = 0;
    must(client_integer(&fixture.client[0], &deleted, &e, "DEL " NAME), e);
    for (unsigned i = 0; i < 1000 && listed(0) + listed(1) > 0; i++)
        clock_sleep_us(10 * 1000);
    assert_int_equal(listed(0) + listed(1), 0);
}

/* A coordinator answers "present" from its memory until it hears of the deletion. */
static void become_absent(void)
{
    uint64_t both = 0;
    for (unsigned i = 0; i < 1000 && (both = absent(0) + absent(1)) < 2 * KEYS; i++)
        clock_sleep_us(10 * 1000);
    assert_int_equal(both, 2 * KEYS);
}

static void is_deleted_by(unsigned d)
{
    struct error e = {""};
    int64_t deleted = 0;
    must(client_integer(&fixture.client[d], &deleted, &e, "DEL " NAME), e);
    assert_int_equal(deleted, 1);
    for (unsigned i = 0; i < 1000 && listed(0) + listed(1) > 0; i++)
        clock_sleep_us(10 * 1000);
    assert_int_equal(listed(0) + listed(1), 0);
    become_absent();
    must(client_integer(&fixture.client[d], &deleted, &e, "DEL " NAME), e);
    assert_int_equal(deleted, 0);
    must(client_madd(&fixture.client[1 - d], NAME, fixture_code, 0, KEYS, &e), e); /* another filter */
    assert_int_equal(absent(0) + absent(1), 0);
    must(client_integer(&fixture.client[d], &deleted, &e, "DEL " NAME), e);
    assert_int_equal(deleted, 1);
    become_absent();
}

/* Coordinators have it in memory, and nothing else knows of it. */
static void test_a_lost_filter__that_coordinators_remember_can_be_deleted(void **state)
{
    (void)state;
    struct error e = {""};
    freeReplyObject(make((char[17]){""}));
    start_daemons();
    assert_int_equal(absent(0) + absent(1), 0);
    for (unsigned i = 0; i < 2; i++)
        freeReplyObject(node(i, "FLUSHALL"));
    for (unsigned d = 0; d < 2; d++)
        must(client_wait_status(&fixture.client[d], NAME, "state", "degraded", REPLY_MS, &e), e);
    is_deleted_by(1);
}

/* No coordinator has had it. */
static void test_a_lost_filter__that_another_master_remembers_can_be_deleted(void **state)
{
    (void)state;
    freeReplyObject(make((char[17]){""}));
    freeReplyObject(node(0, "FLUSHALL"));
    start_daemons();
    assert_int_equal(absent(0) + absent(1), 0);
    is_deleted_by(0);
    freeReplyObject(node(1, "HSET twinbloom:incarnations other 0000000000000001"));
    int64_t deleted = 0; /* nor has one that nobody has asked for */
    struct error e = {""};
    must(client_integer(&fixture.client[1], &deleted, &e, "DEL other"), e);
    assert_int_equal(deleted, 1);
    redisReply *r = node(1, "HEXISTS twinbloom:incarnations other");
    assert_int_equal(r->integer, 0);
    freeReplyObject(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lost_filter__is_not_made_where_a_maker_left_its_record),
        cmocka_unit_test(test_a_lost_filter__is_not_made_where_a_maker_has_named_it_too),
        cmocka_unit_test(test_a_lost_filter__is_shown_by_those_who_had_it),
        cmocka_unit_test(test_a_lost_filter__that_coordinators_remember_can_be_deleted),
        cmocka_unit_test(test_a_lost_filter__that_another_master_remembers_can_be_deleted),
        cmocka_unit_test(test_a_filter_that_never_was__is_made_where_a_maker_left_its_record_and_name),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
