/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_ROLL_CASE_H
#define TESTS_INTEGRATION_ROLL_CASE_H
/* A filter with two writers, for the tests of roll calls on real servers. The view is on a node of its own;
 * the lane's node is behind a proxy that can lead to another server, which is its replica, or was. */
#include "tests/integration/lanes.h"

#include "shard/members/roll.h"
#include "shard/view/log_view.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

enum { ROLL_CASE_GENERATION = 2, ROLL_CASE_WRITERS = 2, ROLL_CASE_LANE_NODE = 1 };

struct roll_case_writer {
    uint8_t id[LOG_WRITER_BYTES];
    struct sync_client *link;
    struct roll roll;
    struct own *own;
    struct lane lane; /* as the writer read it last in the view */
    struct log_position at;
    uint64_t sequence;
};

struct roll_case {
    struct temp_redis home, one, other; /* the lane is on @one, whose replica may be @other */
    struct client home_client, client, other_client;
    struct proxy *proxy;
    unsigned route;
    struct nodes nodes;
    struct names names;
    struct generation g;
    struct roll_case_writer writer[ROLL_CASE_WRITERS];
    struct log_view *view;
    struct log_position anchor;
};

extern struct roll_case w;

/* For all tests: the servers. */
int roll_case_start(void **state);
int roll_case_stop(void **state);

/* For each test: one lane, which is on the proxy's node; or a second one, too, on the metadata node. */
int roll_case_set_up(void **state);
int roll_case_set_up_two_lanes(void **state);
int roll_case_tear_down(void **state);
#define ROLL_TEST(test) cmocka_unit_test_setup_teardown(test, roll_case_set_up, roll_case_tear_down)
#define ROLL_TEST_TWO_LANES(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, roll_case_set_up_two_lanes, roll_case_tear_down)

/* --- the view --- */
struct key_name roll_case_view_key(void);
/* A callback of log_view_format(), too: @arg is not used. */
void roll_case_put_field(void *arg, const char *name, const char *value);
/* A field's text, in one of a few static buffers; "(nil)": there is none. */
char *roll_case_field(const char *name);
void roll_case_load_view(void);
uint64_t roll_case_version(void);
void roll_case_store_folded(unsigned slot, unsigned lane, uint64_t number, const struct log_position *p);
/* Keep lane @lane from @id on for a build. */
void roll_case_hold(unsigned lane, struct log_id id);

/* --- what a writer does --- */
enum err roll_case_try_add(struct roll_case_writer *o, enum tail_state *state, struct error *e);
/* Add entries, which must be acknowledged. */
void roll_case_add(struct roll_case_writer *o, unsigned count);
void roll_case_adds_as(struct roll_case_writer *o, enum tail_state wanted);
void roll_case_answers(struct roll_case_writer *o);
/* How many writers the view still waits for. */
unsigned roll_case_taking(struct roll_case_writer *o);
/* Have all writers answer, and the view accept the era. */
void roll_case_call(void);

/* --- what is in the lane --- */
/* How often entry @sequence of @o is in the view's lane, under its era. */
unsigned roll_case_times(const struct roll_case_writer *o, uint64_t sequence);
void roll_case_all_are_there(const struct roll_case_writer *o);
int64_t roll_case_length_of(struct client *c, const struct lane *lane);
unsigned roll_case_keys_of(struct client *c, const char *pattern);

/* --- servers --- */
/* Give the server of @c another replication id. Nothing is lost. */
void roll_case_renew_era(struct client *c);
/* Wait until the other server has the whole lane. */
void roll_case_catch_up(void);
void roll_case_replicate(void);
/* End the replication: later entries will be lost by roll_case_fail_over(). */
void roll_case_lag(void);
/* Have the address lead to the other server. Connections break and are opened again. */
void roll_case_fail_over(void);
/* Replace the lane's node by another server, which has @kept entries of each writer, and lacks @lost. */
void roll_case_fail_over_with(unsigned kept, unsigned lost);
#endif
