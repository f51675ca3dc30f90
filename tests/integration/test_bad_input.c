/* SPDX-License-Identifier: MIT */
/* Wrong configurations, awkward rows, servers that are not there yet, too little memory: each has a clear
 * message, and the coordinator goes on. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

enum { READY_MS = 60000 };

static struct fixture fixture; /* Redis and Postgres; each test starts its own coordinators */

static int setup(void **state)
{
    (void)state;
    if (fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = 1000}) != 0)
        return -1;
    fixture_sql(fixture.db, "CREATE TABLE \"Camel\" (id bigint PRIMARY KEY, code text)");
    fixture_sql(fixture.db, "CREATE TABLE no_index (id bigint NOT NULL, code text)");
    fixture_sql(fixture.db, "CREATE TABLE awkward (id bigint PRIMARY KEY, code text)");
    fixture_sql(fixture.db,
                "INSERT INTO awkward SELECT n, CASE WHEN n % 10 = 0 THEN NULL WHEN n % 10 = 1 THEN '' "
                "ELSE 'c' || n END FROM generate_series(1, 500) n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* --- configurations that are refused --- */

/* The number of the line of @config that begins with @text, from 1. */
static unsigned line_of(const char *config, const char *text)
{
    FILE *f = fopen(config, "re");
    char line[512];
    unsigned n = 0;
    unsigned found = 0;
    assert_non_null(f);
    while (found == 0 && fgets(line, sizeof(line), f) != NULL) {
        n++;
        if (strncmp(line, text, strlen(text)) == 0)
            found = n;
    }
    (void)fclose(f);
    assert_true(found > 0);
    return found;
}

/* --check-config of a filter section must fail with an error that names file and line of @culprit and
 * contains each of @words, in any case. */
static void is_refused(const char *filter, const char *culprit, const char *const words[])
{
    struct error e = {""};
    struct daemon d;
    char *output = NULL;
    int status = 0;
    char place[64];
    must(daemon_prepare(&d,
                        &(struct daemon_options){
                            .nodes = fixture.node_list, .dsn = fixture.postgres.dsn, .filters = filter},
                        &e),
         e);
    must(daemon_run(&d, "--check-config", &output, &status, &e), e);
    (void)snprintf(place, sizeof(place), "twinbloom.ini:%u:", line_of(d.config, culprit));
    bool placed = strstr(output, place) != NULL;
    const char *unsaid = NULL;
    for (size_t i = 0; words[i] != NULL; i++)
        if (strcasestr(output, words[i]) == NULL)
            unsaid = words[i];
    bool ended = daemon_fini(&d);
    char text[1000];
    (void)snprintf(text, sizeof(text), "%s", output);
    free(output);
    if (status == 0 || status >= 126 || !placed || unsaid != NULL)
        fail_msg("status %d, wanted '%s' and '%s': %s", status, place, unsaid != NULL ? unsaid : "", text);
    assert_true(ended);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_check_config__accepts_a_good_file(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d;
    char *output = NULL;
    int status = -1;
    static const char filter[] =
        "[filter " FILTER "]\ncapacity = 1000\nerror_rate = 0.01\ntable = short_link\n"
        "id_column = id\nkey = code\n";
    must(daemon_prepare(&d,
                        &(struct daemon_options){
                            .nodes = fixture.node_list, .dsn = fixture.postgres.dsn, .filters = filter},
                        &e),
         e);
    must(daemon_run(&d, "--check-config", &output, &status, &e), e);
    if (status != 0)
        fail_msg("status %d: %s", status, output);
    free(output);
    assert_true(daemon_fini(&d));
}

static void test_check_config__names_an_unknown_key_and_its_line(void **state)
{
    (void)state;
    is_refused("[filter a]\ncapacity = 1000\nerror_rate = 0.01\ncapacitty = 1\n", "capacitty",
               WORDS("capacitty"));
}

static void test_check_config__names_a_value_that_is_out_of_range(void **state)
{
    (void)state;
    is_refused("[filter a]\ncapacity = 1000\nerror_rate = 1.5\n", "error_rate", WORDS("error_rate"));
    is_refused("[filter a]\ncapacity = many\nerror_rate = 0.1\n", "capacity", WORDS("capacity"));
}

static void test_check_config__says_what_to_do_about_a_missing_table(void **state)
{
    (void)state;
    is_refused(
        "[filter a]\ncapacity = 1000\nerror_rate = 0.01\ntable = short_lnik\nid_column = id\nkey = code\n",
        "[filter", WORDS("short_lnik", "not exist"));
    is_refused("[filter a]\ntable = Camel\nkey = code\n", "[filter",
               WORDS("Camel", "not exist", "capital letters need double quotes"));
}

static void test_check_config__says_what_to_do_about_a_missing_column(void **state)
{
    (void)state;
    is_refused(
        "[filter a]\ncapacity = 1000\nerror_rate = 0.01\ntable = short_link\nid_column = id\nkey = kode\n",
        "[filter", WORDS("kode", "not exist"));
    is_refused(
        "[filter a]\ncapacity = 1000\nerror_rate = 0.01\ntable = short_link\nid_column = idd\nkey = code\n",
        "[filter", WORDS("idd", "not exist"));
}

static void test_check_config__asks_for_a_unique_index_on_the_id_column(void **state)
{
    (void)state;
    is_refused(
        "[filter a]\ncapacity = 1000\nerror_rate = 0.01\ntable = no_index\nid_column = id\nkey = code\n",
        "[filter", WORDS("no_index", "CREATE UNIQUE INDEX"));
}

/* --- rows --- */

static void start(struct daemon *d, struct client *c, const char *filters)
{
    struct error e = {""};
    must(daemon_start(d,
                      &(struct daemon_options){.nodes = fixture.node_list,
                                               .dsn = fixture.postgres.dsn,
                                               .expansion = "lease = 2s\n",
                                               .filters = filters},
                      &e),
         e);
    must(client_open(c, d->port, 20000, &e), e);
}

static void expect_number(struct client *c, const char *filter, const char *field, int64_t wanted)
{
    struct error e = {""};
    int64_t n = -1;
    must(client_status_number(c, filter, field, &n, &e), e);
    if (n != wanted)
        fail_msg("%s is %" PRId64 ", not %" PRId64, field, n, wanted);
}

static void test_rows__whose_key_is_null_are_skipped_and_counted(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d;
    struct client c;
    int64_t n = 0;
    start(&d, &c,
          "[filter awkward]\ncapacity = 1000\nerror_rate = 0.001\ntable = awkward\nid_column = id\nkey = "
          "code\nfollow = no\ngrace = 10s\n");
    must(client_wait_status(&c, "awkward", "built", "1", READY_MS, &e), e);
    must(client_wait_status(&c, "awkward", "job_state", "done", READY_MS, &e), e);
    expect_number(&c, "awkward", "job_skipped_null", 50);
    for (unsigned row = 1; row <= 500; row++) {
        must(client_integer(&c, &n, &e, "BF.EXISTS awkward c%u", row), e);
        if (row % 10 > 1)
            assert_int_equal(n, 1);
    }
    must(client_integer(&c, &n, &e, "BF.EXISTS awkward %s", ""), e);
    assert_int_equal(n, 1); /* an empty key is a key, as it is for BF.ADD */
    client_close(&c);
    assert_true(daemon_fini(&d));
}

/* --- servers that come later --- */

static bool status_is_trouble(struct client *c, const char *field, char *text, size_t size)
{
    struct error e = {""};
    return client_status(c, FILTER, field, text, size, &e) == ERR_OK && strcmp(text, "ok") != 0 &&
           text[0] != '\0';
}

static void wait_for_trouble(struct client *c, const char *field)
{
    char text[256] = "";
    uint64_t until = clock_mono_us() + 20u * 1000000u;
    while (!status_is_trouble(c, field, text, sizeof(text))) {
        if (clock_mono_us() > until)
            fail_msg("TB.STATUS never said that %s is away: '%s'", field, text);
        clock_sleep_us(50000);
    }
}

static const char short_link_filter[] =
    "[filter " FILTER "]\ncapacity = 5000\nerror_rate = 0.001\ntable = short_link\n"
    "id_column = id\nkey = code\nfollow = no\ngrace = 10s\n";

/* Once @field is "ok" again, the filter must be built and report all rows present. */
static void serves_all_rows(struct client *c, const char *field)
{
    struct error e = {""};
    uint64_t present = 0;
    char generation[32];
    must(client_wait_status(c, FILTER, "built", "1", READY_MS, &e), e);
    must(client_status(c, FILTER, "generation", generation, sizeof(generation), &e), e);
    must(client_wait_status(c, FILTER, "serving_generation", generation, READY_MS, &e), e);
    must(client_wait_status(c, FILTER, field, "ok", READY_MS, &e), e);
    must(client_mexists(c, FILTER, fixture_code, 0, 1000, &present, NULL, &e), e);
    assert_int_equal(present, 1000);
    must(client_mexists(c, FILTER, fixture_absent_code, 0, 1000, &present, NULL, &e), e);
    assert_true(present < 20);
}

static void test_start__without_redis_answers_ping_and_recovers(void **state)
{
    (void)state;
    struct error e = {""};
    struct temp_redis late;
    struct daemon d;
    struct client c;
    must(temp_redis_prepare(&late, NULL, &e), e);
    must(daemon_start(&d,
                      &(struct daemon_options){.nodes = late.url,
                                               .dsn = fixture.postgres.dsn,
                                               .expansion = "lease = 2s\n",
                                               .filters = short_link_filter},
                      &e),
         e);
    must(client_open(&c, d.port, 20000, &e), e);
    redisReply *r = client_command(&c, "BF.EXISTS " FILTER " c1");
    assert_non_null(r);
    bool no = r->type == REDIS_REPLY_INTEGER && r->integer == 0;
    freeReplyObject(r);
    assert_false(no);
    wait_for_trouble(&c, "redis");
    must(temp_redis_restart(&late, false, &e), e);
    serves_all_rows(&c, "redis");
    client_close(&c);
    assert_true(daemon_fini(&d));
    temp_redis_fini(&late);
}

/* A coordinator with a Redis of its own, and the fixture's Postgres. */
struct own {
    struct temp_redis redis;
    struct daemon daemon;
    struct client client;
};

static void own_start(struct own *o)
{
    struct error e = {""};
    must(temp_redis_start(&o->redis, NULL, &e), e);
    must(daemon_start(&o->daemon,
                      &(struct daemon_options){.nodes = o->redis.url,
                                               .dsn = fixture.postgres.dsn,
                                               .expansion = "lease = 2s\n",
                                               .filters = short_link_filter},
                      &e),
         e);
    must(client_open(&o->client, o->daemon.port, 20000, &e), e);
}

static void own_stop(struct own *o)
{
    client_close(&o->client);
    assert_true(daemon_fini(&o->daemon));
    temp_redis_fini(&o->redis);
}

static void postgres_goes(void)
{
    PQfinish(fixture.db);
    fixture.db = NULL;
    temp_postgres_stop(&fixture.postgres);
}

static void postgres_comes_back(void)
{
    struct error e = {""};
    must(temp_postgres_restart(&fixture.postgres, &e), e);
    fixture.db = PQconnectdb(fixture.postgres.dsn);
    assert_int_equal(PQstatus(fixture.db), CONNECTION_OK);
}

static void test_start__without_postgres_answers_ping_and_recovers(void **state)
{
    (void)state;
    struct error e = {""};
    struct own own;
    struct client redis;
    int64_t n = 0;
    postgres_goes();
    own_start(&own);
    wait_for_trouble(&own.client, "postgres");
    /* The coordinator knows no data yet, so every key may be present. */
    must(client_wait_status(&own.client, FILTER, "redis", "ok", READY_MS, &e), e);
    must(client_integer(&own.client, &n, &e, "BF.EXISTS " FILTER " absent-1"), e);
    assert_int_equal(n, 1);
    assert_int_not_equal(client_ok(&own.client, &e, "TB.VERIFY " FILTER), ERR_OK);
    assert_non_null(strstr(e.text, "not built yet"));
    must(client_open(&redis, own.redis.port, 5000, &e), e);
    must(client_ok(&redis, &e, "FLUSHALL"), e); /* the same if the filter does not exist yet */
    client_close(&redis);
    assert_int_not_equal(client_ok(&own.client, &e, "TB.VERIFY " FILTER), ERR_OK);
    assert_non_null(strstr(e.text, "not built yet"));
    postgres_comes_back();
    serves_all_rows(&own.client, "postgres");
    own_stop(&own);
}

static void test_rebuild__without_postgres_waits_says_so_and_can_be_aborted(void **state)
{
    (void)state;
    struct error e = {""};
    struct own own;
    struct client *c = &own.client;
    char text[512] = "";
    own_start(&own);
    must(client_wait_status(c, FILTER, "job_state", "done", READY_MS, &e), e);
    postgres_goes();
    must(client_ok(c, &e, "TB.REBUILD " FILTER " CAPACITY 7000"), e);
    must(client_wait_status(c, FILTER, "job_state", "running", READY_MS, &e), e);
    must(client_status(c, FILTER, "job_step", text, sizeof(text), &e), e);
    assert_string_equal(text, "plan");
    uint64_t deadline = clock_mono_us() + (uint64_t)READY_MS * 1000;
    while (strstr(text, "Postgres") == NULL) {
        assert_true(clock_mono_us() < deadline);
        must(client_status(c, FILTER, "job_waiting_for", text, sizeof(text), &e), e);
    }
    for (unsigned i = 0; i < 600; i++) { /* it is tried several times meanwhile */
        clock_sleep_us(5000);
        must(client_status(c, FILTER, "job_waiting_for", text, sizeof(text), &e), e);
        assert_non_null(strstr(text, "Postgres"));
    }
    must(client_ok(c, &e, "TB.ABORT " FILTER), e);
    must(client_wait_status(c, FILTER, "job_state", "aborted", READY_MS, &e), e);
    postgres_comes_back();
    serves_all_rows(c, "postgres");
    must(client_status(c, FILTER, "capacity", text, sizeof(text), &e), e);
    assert_string_equal(text, "5000");
    own_stop(&own);
}

/* Postgres shows this role neither what another role's transaction is, nor for how long it has been open. */
static void test_rebuild__waits_for_a_transaction_that_its_role_may_not_see(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d;
    struct client c;
    char dsn[128], text[512] = "", pid[32];
    PGconn *other = PQconnectdb(fixture.postgres.dsn);
    fixture_sql(fixture.db, "CREATE ROLE poor LOGIN; GRANT SELECT ON awkward TO poor");
    fixture_sql(other, "BEGIN; LOCK awkward IN ROW EXCLUSIVE MODE");
    (void)snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u dbname=postgres user=poor",
                   fixture.postgres.port);
    must(daemon_start(&d,
                      &(struct daemon_options){.nodes = fixture.node_list,
                                               .dsn = dsn,
                                               .filters = "[filter poor]\ntable = awkward\nkey = code\n"
                                                          "follow = no\ngrace = 0\n"},
                      &e),
         e);
    must(client_open(&c, d.port, 20000, &e), e);
    (void)snprintf(pid, sizeof(pid), "pid %d: ", PQbackendPID(other));
    for (uint64_t until = clock_mono_us() + (uint64_t)READY_MS * 1000; strstr(text, pid) == NULL;
         clock_sleep_us(20000)) {
        if (clock_mono_us() > until)
            fail_msg("\"%s\" does not name %s", text, pid);
        if (client_status(&c, "poor", "job_waiting_for", text, sizeof(text), &e) != ERR_OK)
            text[0] = '\0'; /* there is no filter yet */
    }
    assert_string_equal(strstr(text, pid) + strlen(pid), "for more GRANT pg_read_all_stats to the role");
    PQfinish(other);
    must(client_wait_status(&c, "poor", "job_state", "done", READY_MS, &e), e);
    client_close(&c);
    assert_true(daemon_fini(&d));
}

static unsigned count_of(const struct daemon *d, const char *text)
{
    unsigned count = 0;
    char *log = process_log(&d->process);
    for (const char *at = strstr(log, text); at != NULL; at = strstr(at + 1, text))
        count++;
    free(log);
    return count;
}

/* The scan takes long enough for all readers to ask. */
static void test_rebuild__says_that_readers_are_not_let_in_and_that_they_are(void **state)
{
    (void)state;
    static const char left_out[] = " event=readers_left_out ", let_in[] = " event=readers_let_in ";
    struct error e = {""};
    static struct daemon d;
    struct client c;
    char dsn[128];
    fixture_sql(fixture.db, "CREATE ROLE few LOGIN CONNECTION LIMIT 4; GRANT SELECT ON awkward TO few");
    (void)snprintf(dsn, sizeof(dsn), "postgresql://few@127.0.0.1:%u/postgres", fixture.postgres.port);
    must(daemon_start(&d,
                      &(struct daemon_options){.nodes = fixture.node_list,
                                               .dsn = dsn,
                                               .expansion = "readers = 8\n",
                                               .filters = "[filter few]\ntable = awkward\nkey = code\n"
                                                          "where = pg_sleep(0.002) IS NOT NULL\n"
                                                          "follow = no\ngrace = 0\n"},
                      &e),
         e);
    must(client_open(&c, d.port, 20000, &e), e);
    must(client_wait_status(&c, "few", "job_state", "done", READY_MS, &e), e);
    unsigned outs = count_of(&d, left_out), ins = count_of(&d, let_in);
    must(client_when_free(&c, READY_MS, &e, "TB.REBUILD few HOLD"), e);
    must(client_wait_status(&c, "few", "job_step", "hold", READY_MS, &e), e);
    assert_true(count_of(&d, left_out) > outs);
    fixture_sql(fixture.db, "ALTER ROLE few CONNECTION LIMIT -1");
    must(client_ok(&c, &e, "TB.CUTOVER few"), e);
    must(client_wait_status(&c, "few", "job_state", "done", READY_MS, &e), e);
    assert_int_equal(count_of(&d, left_out) - outs, count_of(&d, let_in) - ins); /* in turn */
    client_close(&c);
    char *log = process_log(&d.process);
    assert_non_null(strstr(log, "left_out="));
    assert_non_null(strstr(log, "too many connections for role"));
    free(log);
    assert_true(daemon_fini(&d));
}

/* --- memory --- */

static void test_memory__too_small_for_a_filter_is_refused_with_figures(void **state)
{
    (void)state;
    struct error e = {""};
    struct temp_redis small;
    struct daemon d;
    struct client c;
    static const char *const limit[] = {"--maxmemory", "8mb", NULL};
    must(temp_redis_start(&small, limit, &e), e);
    must(daemon_start(&d, &(struct daemon_options){.nodes = small.url}, &e), e);
    must(client_open(&c, d.port, 20000, &e), e);
    enum err err = client_ok(&c, &e, "BF.RESERVE big 0.001 100000000");
    if (err != ERR_REFUSED)
        fail_msg("reserving 180 MB in 8 MB: %s", error_name(err));
    if (strstr(e.text, "ERR Insufficient memory to create filter") == NULL ||
        strcspn(e.text, "0123456789") == strlen(e.text))
        fail_msg("no figures: %s", e.text);
    /* The refused filter does not exist, and a filter that fits can be made. */
    int64_t n = -1;
    must(client_integer(&c, &n, &e, "BF.CARD big"), e);
    assert_int_equal(n, 0);
    must(client_ok(&c, &e, "BF.RESERVE small 0.01 1000"), e);
    must(client_integer(&c, &n, &e, "BF.ADD small x"), e);
    assert_int_equal(n, 1);
    client_close(&c);
    assert_true(daemon_fini(&d));
    temp_redis_fini(&small);
}

/* What is checked before is what is made: no filter gets half of its shards before Redis has no memory left.
 */
static void test_memory__that_is_a_little_too_small_is_noticed_before_shards_are_made(void **state)
{
    (void)state;
    struct error e = {""};
    struct temp_redis small;
    struct daemon d;
    struct client c;
    unsigned made = 0, refused = 0;
    static const char *const limit[] = {"--maxmemory", "8mb", NULL};
    must(temp_redis_start(&small, limit, &e), e);
    must(daemon_start(&d, &(struct daemon_options){.nodes = small.url}, &e), e);
    must(client_open(&c, d.port, 20000, &e), e);
    for (unsigned keys = 3000000; keys <= 6000000; keys += 200000) {
        if (client_ok(&c, &e, "BF.RESERVE f%u 0.01 %u", keys, keys) == ERR_OK)
            made++;
        else if (strstr(e.text, " has too little memory: ") == NULL)
            fail_msg("%u keys: %s", keys, e.text);
        else
            refused++;
        int64_t n = -1;
        must(client_integer(&c, &n, &e, "DEL f%u", keys), e);
    }
    assert_true(made > 0 && refused > 0);
    client_close(&c);
    assert_true(daemon_fini(&d));
    temp_redis_fini(&small);
}

static void test_memory__too_small_for_a_rebuild_leaves_the_filter_serving(void **state)
{
    (void)state;
    struct error e = {""};
    struct temp_redis small;
    struct daemon d;
    struct client c;
    uint64_t present = 0;
    char text[512] = "";
    static const char *const limit[] = {"--maxmemory", "16mb", NULL};
    must(temp_redis_start(&small, limit, &e), e);
    must(daemon_start(&d,
                      &(struct daemon_options){.nodes = small.url,
                                               .dsn = fixture.postgres.dsn,
                                               .expansion = "lease = 2s\n",
                                               .filters = short_link_filter},
                      &e),
         e);
    must(client_open(&c, d.port, 20000, &e), e);
    serves_all_rows(&c, "redis");
    must(client_wait_status(&c, FILTER, "job_state", "done", READY_MS, &e), e);
    /* The rebuild is refused at once, or fails at its end. Either error gives figures. */
    enum err err = client_ok(&c, &e, "TB.REBUILD " FILTER " CAPACITY 100000000");
    if (err == ERR_OK) {
        must(client_wait_status(&c, FILTER, "job_state", "failed", READY_MS, &e), e);
        must(client_status(&c, FILTER, "job_error", text, sizeof(text), &e), e);
    } else {
        (void)snprintf(text, sizeof(text), "%s", e.text);
    }
    if (strcspn(text, "0123456789") == strlen(text) || strcasestr(text, "memory") == NULL)
        fail_msg("no figures: %s", text);
    must(client_mexists(&c, FILTER, fixture_code, 0, 1000, &present, NULL, &e), e);
    assert_int_equal(present, 1000);
    client_close(&c);
    assert_true(daemon_fini(&d));
    temp_redis_fini(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_config__accepts_a_good_file),
        cmocka_unit_test(test_check_config__names_an_unknown_key_and_its_line),
        cmocka_unit_test(test_check_config__names_a_value_that_is_out_of_range),
        cmocka_unit_test(test_check_config__says_what_to_do_about_a_missing_table),
        cmocka_unit_test(test_check_config__says_what_to_do_about_a_missing_column),
        cmocka_unit_test(test_check_config__asks_for_a_unique_index_on_the_id_column),
        cmocka_unit_test(test_rows__whose_key_is_null_are_skipped_and_counted),
        cmocka_unit_test(test_start__without_redis_answers_ping_and_recovers),
        cmocka_unit_test(test_start__without_postgres_answers_ping_and_recovers),
        cmocka_unit_test(test_rebuild__without_postgres_waits_says_so_and_can_be_aborted),
        cmocka_unit_test(test_rebuild__waits_for_a_transaction_that_its_role_may_not_see),
        cmocka_unit_test(test_rebuild__says_that_readers_are_not_let_in_and_that_they_are),
        cmocka_unit_test(test_memory__too_small_for_a_filter_is_refused_with_figures),
        cmocka_unit_test(test_memory__that_is_a_little_too_small_is_noticed_before_shards_are_made),
        cmocka_unit_test(test_memory__too_small_for_a_rebuild_leaves_the_filter_serving),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
