/* SPDX-License-Identifier: MIT */
/* All coordinators and both Redis nodes stop at one time: what the state file tells the next start. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "shard/members/members.h"
#include "tests/integration/fixture.h"
#include "tests/lib/daemon.h"
#include "tests/lib/temp_redis.h"

enum { NODES = 2, DAEMONS = 2, REPLY_MS = 5000, STOP_MS = 20000, KEYS = 1000, ASKED_FOR_MS = 60000 };

static struct temp_redis redis[NODES];
static struct daemon served[DAEMONS];
static struct client caller[DAEMONS];
static char directory[] = "/tmp/twinbloom-state-XXXXXX";
static char state_file[64], nodes[160], lines[128], far[160];
static uint64_t f_count, idle_count, far_count;

static void launch(unsigned d)
{
    struct error e = {""};
    must(daemon_launch(&served[d], &e), e);
    must(client_open(&caller[d], served[d].port, REPLY_MS, &e), e);
}

static void end(unsigned d)
{
    client_close(&caller[d]);
    assert_true(daemon_stop(&served[d], STOP_MS));
}

static void die(unsigned d)
{
    client_close(&caller[d]);
    daemon_kill(&served[d]);
}

static void save(unsigned node)
{
    struct error e = {""};
    struct client c = {0};
    must(client_open(&c, redis[node].port, REPLY_MS, &e), e);
    must(client_save(&c, &e), e);
    client_close(&c);
}

static void save_both(void)
{
    for (unsigned i = 0; i < NODES; i++)
        save(i);
}

/* @saves: the node writes its file first. */
static void restart_node(unsigned node, bool saves)
{
    struct error e = {""};
    if (saves)
        temp_redis_stop(&redis[node]);
    else
        temp_redis_kill(&redis[node]);
    must(temp_redis_restart(&redis[node], true, &e), e);
}

static void restart_nodes(bool saves)
{
    for (unsigned i = 0; i < NODES; i++)
        restart_node(i, saves);
}

static void add(unsigned d, const char *filter, uint64_t *count)
{
    struct error e = {""};
    must(client_madd(&caller[d], filter, fixture_code, *count, KEYS, &e), e);
    *count += KEYS;
}

/* No key that was acknowledged is absent. Errors pass. */
static void none_is_absent(unsigned d, const char *filter, uint64_t count)
{
    struct error e = {""};
    uint64_t present = 0, until = clock_mono_us() + ASKED_FOR_MS * 1000ull;
    while (client_mexists(&caller[d], filter, fixture_code, 0, count, &present, NULL, &e) != ERR_OK) {
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
        clock_sleep_us(50 * 1000);
    }
    assert_int_equal(present, count);
}

static void is_degraded(unsigned d, const char *filter, const char *degraded)
{
    char value[16];
    struct error e = {""};
    must(client_status(&caller[d], filter, "degraded", value, sizeof(value), &e), e);
    assert_string_equal(value, degraded);
}

/* All keys are there at once, and others are absent. */
static void is_whole(unsigned d, const char *filter, uint64_t count)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_mexists(&caller[d], filter, fixture_code, 0, count, &present, NULL, &e), e);
    assert_int_equal(present, count);
    must(client_mexists(&caller[d], filter, fixture_absent_code, 0, KEYS, &present, NULL, &e), e);
    assert_true(present < KEYS / 50);
    is_degraded(d, filter, "0");
}

static void is_in_doubt(unsigned d, const char *filter, uint64_t count)
{
    none_is_absent(d, filter, count);
    is_degraded(d, filter, "1");
}

/* It adds keys, and is killed; all nodes come back as they were when they were saved. */
static void adds_and_all_goes_back(unsigned d)
{
    add(d, "f", &f_count);
    die(d);
    restart_nodes(false);
    launch(0);
    is_in_doubt(0, "f", f_count);
}

static bool has_logged(unsigned d, const char *text)
{
    char *log = process_log(&served[d].process);
    bool has = strstr(log, text) != NULL;
    free(log);
    return has;
}

static void read_state(char *out, size_t size)
{
    FILE *f = fopen(state_file, "r");
    assert_non_null(f);
    out[fread(out, 1, size - 1, f)] = '\0';
    (void)fclose(f);
}

static void write_state(const char *text)
{
    FILE *f = fopen(state_file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* --- each test has filters and servers of its own --- */

static int start(void **state)
{
    struct error e = {""};
    static const char *const saved[] = {"--save", "3600", "1", NULL};
    (void)state;
    (void)snprintf(directory, sizeof(directory), "/tmp/twinbloom-state-XXXXXX");
    assert_non_null(mkdtemp(directory));
    (void)snprintf(state_file, sizeof(state_file), "%s/state", directory);
    (void)snprintf(lines, sizeof(lines), "state_file = %s\n", state_file);
    for (unsigned i = 0; i < NODES; i++)
        must(temp_redis_start(&redis[i], saved, &e), e);
    (void)snprintf(nodes, sizeof(nodes), "%s, %s", redis[0].url, redis[1].url);
    (void)snprintf(far, sizeof(far),
                   "[filter far]\ncapacity = 1000\nerror_rate = 0.001\nnodes = 127.0.0.1:%u\n",
                   redis[1].port);
    const struct daemon_options o = {
        .nodes = nodes, .service = lines, .redis = "shard_bytes = 16KiB\n", .filters = far};
    for (unsigned i = 0; i < DAEMONS; i++)
        must(daemon_prepare(&served[i], &o, &e), e);
    launch(0);
    must(client_ok(&caller[0], &e, "BF.RESERVE f 0.001 200000"), e);
    must(client_ok(&caller[0], &e, "BF.RESERVE idle 0.001 200000"), e);
    f_count = idle_count = far_count = 0;
    add(0, "f", &f_count);
    add(0, "idle", &idle_count);
    return 0;
}

static int stop(void **state)
{
    bool good = true;
    (void)state;
    for (unsigned i = 0; i < DAEMONS; i++) {
        client_close(&caller[i]);
        good &= daemon_fini(&served[i]);
    }
    for (unsigned i = 0; i < NODES; i++)
        temp_redis_fini(&redis[i]);
    process_remove_directory(directory);
    return good ? 0 : -1;
}

static void test_all_restarted__nothing_is_in_doubt(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        end(0);
        restart_nodes(true);
        launch(0);
        is_whole(0, "f", f_count);
        add(0, "f", &f_count);
    }
    is_whole(0, "idle", idle_count); /* nobody has asked for it since the first stop */
    end(0);
    launch(0); /* Redis ran on */
    is_whole(0, "f", f_count);
}

static void test_all_of_two_coordinators__what_one_knows_is_known_to_both(void **state)
{
    (void)state;
    launch(1);
    is_whole(1, "f", f_count);
    end(0);
    assert_false(has_logged(0, "event=clean_stop_noted"));
    end(1);
    assert_true(has_logged(1, "event=clean_stop_noted"));
    restart_nodes(true);
    launch(0);
    launch(1);
    is_whole(1, "f", f_count);
    is_whole(0, "f", f_count);
}

static void test_a_node_with_older_data__is_not_believed(void **state)
{
    (void)state;
    save(1);
    add(0, "f", &f_count);
    end(0);
    restart_node(0, true);
    restart_node(1, false);
    launch(0);
    assert_true(has_logged(0, "error=\"it has older data, or is another server\""));
    is_in_doubt(0, "f", f_count);
}

/* All of the filter lies on the other node, but for its view. */
static void test_an_older_metadata_node__vouches_for_no_other(void **state)
{
    (void)state;
    add(0, "far", &far_count);
    save(0);
    add(0, "far", &far_count); /* in a layer that the older view does not have */
    add(0, "far", &far_count);
    end(0);
    restart_node(0, false);
    restart_node(1, true);
    launch(0);
    is_in_doubt(0, "far", far_count);
}

static void test_a_kill_behind_a_clean_start__what_was_noted_is_used_up(void **state)
{
    (void)state;
    end(0);
    save_both(); /* with the marks */
    launch(0);
    adds_and_all_goes_back(0);
}

/* It slept for so long that its heartbeat counts as gone. */
static void test_one_that_sleeps__nothing_is_noted(void **state)
{
    (void)state;
    launch(1);
    daemon_pause(&served[1]);
    clock_sleep_us((MEMBERS_GONE_MS + 500) * 1000);
    end(0);
    save_both();
    daemon_resume(&served[1]);
    adds_and_all_goes_back(1);
}

/* The other one does not have the file, and all comes back as it was while it served. */
static void test_one_without_the_file_meanwhile__what_was_noted_counts_no_more(void **state)
{
    struct error e = {""};
    (void)state;
    end(0);
    must(daemon_rewrite(&served[1], &(struct daemon_options){.nodes = nodes}, &e), e);
    launch(1);
    save_both();
    adds_and_all_goes_back(1);
}

/* The other one does not have the file. */
static void test_one_without_the_file__nothing_is_noted(void **state)
{
    struct error e = {""};
    (void)state;
    must(daemon_rewrite(&served[1], &(struct daemon_options){.nodes = nodes}, &e), e);
    launch(1);
    end(0);
    assert_true(has_logged(0, "event=clean_stop_not_noted"));
}

/* It is still registered: its entries are in the lane. */
static void test_a_writer_was_killed_before__nothing_is_in_doubt(void **state)
{
    (void)state;
    launch(1);
    add(1, "f", &f_count);
    die(1);
    end(0);
    assert_true(has_logged(0, "event=clean_stop_noted"));
    restart_nodes(true);
    launch(0);
    is_whole(0, "f", f_count);
}

static void test_a_node_that_lost_keys_meanwhile__no_longer_vouches_for_what_it_had_before(void **state)
{
    (void)state;
    save(1);
    add(0, "idle", &idle_count);
    end(0);
    launch(0);
    restart_node(1, false); /* older; what `f` lacks is in memory, if there is any */
    none_is_absent(0, "f", f_count);
    end(0);
    assert_true(has_logged(0, "event=clean_stop_noted"));
    restart_nodes(true);
    launch(0);
    is_in_doubt(0, "idle", idle_count);
}

static void test_a_node_that_is_away__is_waited_for(void **state)
{
    char before[1024], after[1024];
    struct error e = {""};
    struct process early = {0};
    const char *argv[] = {TWINBLOOMD, "-c", served[0].config, NULL};
    char log[PATH_MAX + 8];
    (void)state;
    end(0);
    temp_redis_stop(&redis[1]);
    read_state(before, sizeof(before));
    assert_non_null(strstr(before, "\nmark "));
    (void)snprintf(log, sizeof(log), "%s/early", served[0].directory);
    must(process_start(&early, argv, log, &e), e);
    char *text = process_log(&early);
    while (strstr(text, "event=clean_stop_waits") == NULL) {
        assert_true(process_running(&early));
        free(text);
        clock_sleep_us(20 * 1000);
        text = process_log(&early);
    }
    free(text);
    assert_true(process_stop(&early, STOP_MS)); /* a signal ends the wait, and the file stays */
    read_state(after, sizeof(after));
    assert_string_equal(after, before);
    must(temp_redis_restart(&redis[1], true, &e), e);
    launch(0);
    is_whole(0, "f", f_count);
}

static void test_a_damaged_file__tells_nothing(void **state)
{
    char text[1024];
    (void)state;
    end(0);
    read_state(text, sizeof(text));
    char *last = strstr(text, "end\n");
    assert_non_null(last);
    *last = '\0';
    write_state(text);
    restart_nodes(true);
    launch(0);
    assert_true(has_logged(0, "error=\"state_file is damaged, or another version's\""));
    is_in_doubt(0, "f", f_count);
}

/* Starts a coordinator that ends with an error which has @why. */
static void refuses_to_start(const char *why)
{
    struct error e = {""};
    struct process refused = {0};
    const char *argv[] = {TWINBLOOMD, "-c", served[1].config, NULL};
    char log[PATH_MAX + 8];
    (void)snprintf(log, sizeof(log), "%s/refused", served[1].directory);
    must(process_start(&refused, argv, log, &e), e);
    must(process_wait(&refused, STOP_MS, &e), e);
    assert_int_not_equal(process_exit_status(&refused), 0);
    char *text = process_log(&refused);
    assert_non_null(strstr(text, why));
    free(text);
}

static void test_a_file_that_is_no_good__is_refused(void **state)
{
    char text[1024];
    struct error e = {""};
    (void)state;
    end(0);
    read_state(text, sizeof(text));
    struct daemon_options o = {.nodes = nodes, .service = lines, .redis = "prefix = other\n"};
    must(daemon_rewrite(&served[1], &o, &e), e);
    refuses_to_start("is that of another prefix");
    char after[1024];
    read_state(after, sizeof(after));
    assert_string_equal(after, text);
    o = (struct daemon_options){.nodes = nodes, .service = "state_file = /nowhere/state\n"};
    must(daemon_rewrite(&served[1], &o, &e), e);
    refuses_to_start("state_file /nowhere/state cannot be opened: No such file or directory");
    o = (struct daemon_options){.cluster = redis[0].url, .service = lines};
    must(daemon_rewrite(&served[1], &o, &e), e);
    refuses_to_start("'state_file' and 'cluster' exclude each other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_restarted__nothing_is_in_doubt, start, stop),
        cmocka_unit_test_setup_teardown(test_all_of_two_coordinators__what_one_knows_is_known_to_both, start,
                                        stop),
        cmocka_unit_test_setup_teardown(test_a_node_with_older_data__is_not_believed, start, stop),
        cmocka_unit_test_setup_teardown(test_an_older_metadata_node__vouches_for_no_other, start, stop),
        cmocka_unit_test_setup_teardown(test_a_kill_behind_a_clean_start__what_was_noted_is_used_up, start,
                                        stop),
        cmocka_unit_test_setup_teardown(test_one_that_sleeps__nothing_is_noted, start, stop),
        cmocka_unit_test_setup_teardown(test_one_without_the_file_meanwhile__what_was_noted_counts_no_more,
                                        start, stop),
        cmocka_unit_test_setup_teardown(test_one_without_the_file__nothing_is_noted, start, stop),
        cmocka_unit_test_setup_teardown(test_a_writer_was_killed_before__nothing_is_in_doubt, start, stop),
        cmocka_unit_test_setup_teardown(
            test_a_node_that_lost_keys_meanwhile__no_longer_vouches_for_what_it_had_before, start, stop),
        cmocka_unit_test_setup_teardown(test_a_node_that_is_away__is_waited_for, start, stop),
        cmocka_unit_test_setup_teardown(test_a_damaged_file__tells_nothing, start, stop),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_no_good__is_refused, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
