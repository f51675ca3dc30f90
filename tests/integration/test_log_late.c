/* SPDX-License-Identifier: MIT */
/* Requests of a builder that Redis executes late, on two real servers: the builder was not told, has done the
 * same again, and more, in between. */
#include "tests/integration/lives.h"

#include <stdlib.h>

#include "shard/generations/build.h"
#include "shard/generations/grace.h"

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

static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    life_begin(&w, "f", 1);
    must(life_make(&w, w.link, &e), e);
    life_is_whole(&w, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    life_end(&w);
    return 0;
}

static enum err begin_build(struct life *life, struct sync_client *l, struct error *e)
{
    struct builder *b;
    enum err code = builder_new(&b, l, &life->names, e);
    if (code != ERR_OK)
        return code;
    code = builder_begin(b, &w.view.slot[1].shape, "", e);
    builder_free(b);
    return code;
}

/* Generation 2 was given up since: its number is used, and its shards may be read or deleted late. */
static void test_begin__that_comes_late_enters_no_generation_again(void **state)
{
    struct error e = {""};
    static struct life_sleeper s;
    (void)state;
    proxy_count_only(w.proxy, ":expansion_flag");
    assert_true(life_put_to_sleep(&s, &w, begin_build, 1, PROXY_BEFORE));
    proxy_count_only(w.proxy, "");
    must(begin_build(&w, w.link, &e), e);
    must(grace_forget(w.link, &w.names, "", 2, &e), e);
    gives(ERR_CONFLICT, life_wake(&s), s.e);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    assert_int_equal(w.view.last_generation, 2);
    assert_int_equal(w.view.slot[0].shape.number, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_begin__that_comes_late_enters_no_generation_again, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("late, two nodes", tests, start, stop);
}
