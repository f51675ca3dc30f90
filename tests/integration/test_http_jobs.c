/* SPDX-License-Identifier: MIT */
/* Jobs by their ids: what each HTTP answer says about a job during its life, and afterwards. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "tests/lib/http.h"

enum { ROWS = 3000, ID_MAX = 256, WAIT_US = 60 * 1000 * 1000 };

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 2,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 10000,
                                               .rate = "0.001",
                                               .grace = "60s",
                                               .service = "timeout = 10s\n",
                                               .expansion = "lease = 2s\n"};

/* --- asking --- */

/* The answer of coordinator @d, which must have the status @status. The caller frees it. */
static json_t *ask(unsigned d, const char *method, const char *path, const char *json, int status)
{
    struct http_reply r = http_ask(fixture.daemon[d].http_port, method, path, json);
    if (r.status != status)
        fail_msg("%s %s: %d, expected %d: %s", method, path, r.status, status, r.body == NULL ? "" : r.body);
    json_t *root = json_loadb(r.body, r.length, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    http_reply_fini(&r);
    return root;
}

static const char *text(const json_t *root, const char *member)
{
    const char *value = json_string_value(json_object_get(root, member));
    return value == NULL ? "" : value;
}

/* Have coordinator @d start a job. @id becomes the job's id, which Location has, too. */
static void begin(unsigned d, const char *what, const char *json, char id[ID_MAX])
{
    char path[ID_MAX];
    (void)snprintf(path, sizeof(path), "/v1/filters/" FILTER "/%s", what);
    struct http_reply r = http_ask(fixture.daemon[d].http_port, "POST", path, json);
    if (r.status != 202)
        fail_msg("%s: %d %s", path, r.status, r.body == NULL ? "" : r.body);
    json_t *root = json_loadb(r.body, r.length, 0, NULL);
    assert_string_equal(text(root, "filter"), FILTER);
    assert_string_equal(text(root, "accepted"), what);
    (void)snprintf(id, ID_MAX, "%s", text(root, "job_id"));
    assert_int_equal(strncmp(id, FILTER ".", strlen(FILTER ".")), 0);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%.200s", id);
    assert_string_equal(http_reply_header(&r, "Location"), path);
    json_decref(root);
    http_reply_fini(&r);
}

static json_t *job(unsigned d, const char *id)
{
    char path[ID_MAX + 16];
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s", id);
    json_t *root = ask(d, "GET", path, NULL, 200);
    assert_string_equal(text(root, "job_id"), id);
    assert_string_equal(text(root, "filter"), FILTER);
    return root;
}

/* Wait until coordinator @d reports @value. The job must exist at every moment. The caller frees the
 * answer. */
static json_t *wait_for(unsigned d, const char *id, const char *member, const char *value)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    json_t *root = job(d, id);
    while (strcmp(text(root, member), value) != 0) {
        if (clock_mono_us() > until)
            fail_msg("%s is not %s: %s", member, value, json_dumps(root, 0));
        json_decref(root);
        clock_sleep_us(20 * 1000);
        root = job(d, id);
    }
    return root;
}

static void await_another_owner(unsigned d, const char *id, const char *owner)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    bool another = false;
    while (!another && clock_mono_us() < until) {
        clock_sleep_us(20 * 1000);
        json_t *root = job(d, id);
        another = strcmp(text(root, "owner"), owner) != 0;
        json_decref(root);
    }
    assert_true(another);
}

static void runs(json_t *root, const char *step)
{
    assert_string_equal(text(root, "state"), "running");
    assert_string_equal(text(root, "step"), step);
    assert_true(json_number_value(json_object_get(root, "started_at")) > 1.6e9);
    assert_true(json_is_null(json_object_get(root, "finished_at")));
    assert_true(json_is_null(json_object_get(root, "error")));
    json_decref(root);
}

static void has_ended(json_t *root, const char *state)
{
    assert_string_equal(text(root, "state"), state);
    assert_true(json_is_null(json_object_get(root, "step")));
    double began = json_number_value(json_object_get(root, "started_at"));
    double ended = json_number_value(json_object_get(root, "finished_at"));
    assert_true(began > 1.6e9 && ended >= began);
    json_decref(root);
}

/* The newest entry of the history must be that job's. */
static void is_newest(const char *id)
{
    json_t *root = ask(1, "GET", "/v1/filters/" FILTER "/history?count=1", NULL, 200);
    assert_string_equal(text(json_array_get(json_object_get(root, "history"), 0), "job_id"), id);
    json_decref(root);
}

/* --- tests --- */

static void test_jobs__keep_their_ids_through_a_takeover_and_a_restart(void **state)
{
    (void)state;
    char id[ID_MAX], same[ID_MAX], status[ID_MAX], owner[ID_MAX];
    struct error e = {""};
    begin(0, "rebuild", "{\"hold\":true,\"capacity\":20000}", id);
    json_t *root = job(1, id); /* at once, and by another coordinator */
    assert_string_equal(text(root, "state"), "running");
    json_decref(root);
    root = wait_for(1, id, "step", "hold");
    (void)snprintf(owner, sizeof(owner), "%s", text(root, "owner"));
    runs(root, "hold");
    must(client_status(&fixture.client[1], FILTER, "job_id", status, sizeof(status), &e), e);
    assert_string_equal(status, id);
    begin(1, "pause", "{}", same);
    assert_string_equal(same, id);
    begin(1, "resume", "{}", same);

    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    await_another_owner(1, id, owner);
    runs(wait_for(1, id, "step", "hold"), "hold");

    begin(1, "cutover", "", same);
    assert_string_equal(same, id);
    runs(wait_for(1, id, "step", "grace"), "grace");
    begin(1, "finish", "", same);
    assert_string_equal(same, id);
    root = wait_for(1, id, "state", "done");
    assert_int_equal(json_integer_value(json_object_get(root, "rows")), ROWS);
    has_ended(root, "done");
    is_newest(id);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    has_ended(job(0, id), "done");
}

static void test_jobs__each_have_an_id_of_their_own(void **state)
{
    (void)state;
    char verify[ID_MAX], rebuild[ID_MAX], abort[ID_MAX];
    fixture_wait(&fixture, 1, "mutex_owner", "");
    begin(1, "verify", "{\"verify_full\":true}", verify);
    json_t *root = wait_for(0, verify, "state", "done");
    assert_string_equal(text(root, "trigger"), "verify");
    assert_true(json_is_null(json_object_get(root, "rows"))); /* not the rows of the rebuild before */
    has_ended(root, "done");
    fixture_wait(&fixture, 1, "mutex_owner", "");
    begin(1, "rebuild", "{\"hold\":true}", rebuild);
    assert_string_not_equal(rebuild, verify);
    json_decref(wait_for(1, rebuild, "step", "hold"));
    begin(1, "abort", "", abort);
    assert_string_equal(abort, rebuild);
    root = wait_for(1, rebuild, "state", "aborted");
    assert_true(json_string_length(json_object_get(root, "error")) > 0);
    has_ended(root, "aborted");
    is_newest(rebuild);
    has_ended(job(1, verify), "done");
}

static void test_jobs__that_there_are_not_are_not_found(void **state)
{
    (void)state;
    static const char *const paths[] = {"/v1/jobs/" FILTER, "/v1/jobs/" FILTER ".0123456789abcdef",
                                        "/v1/jobs/never.0123456789abcdef", "/v1/jobs/%2f",
                                        "/v1/jobs/" FILTER ".0123456789abcdeg"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        json_decref(ask(1, "GET", paths[i], NULL, 404));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs__keep_their_ids_through_a_takeover_and_a_restart),
        cmocka_unit_test(test_jobs__each_have_an_id_of_their_own),
        cmocka_unit_test(test_jobs__that_there_are_not_are_not_found),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
