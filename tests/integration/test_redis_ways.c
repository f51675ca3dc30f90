/* SPDX-License-Identifier: MIT */
/* A whole daemon that reaches Redis over a Unix socket and over TLS, as a user with exactly the rights that
 * docs/howto/connect-to-redis.md names. All operations on filters; certificates that change; nodes in INFO
 * and TB.STATUS. */
#include "tests/integration/fixture.h"
#include "tests/integration/wired.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/dumps.h"
#include "tests/integration/psql.h"
#include "tests/lib/http.h"

enum { ROWS = 3000, REPLY_MS = 30000, WORDS_MAX = 128 };

#define PASSWORD "s3cret"
#define SOURCED                                                                                              \
    "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.001\ntable = short_link\nid_column = id\n"        \
    "key = code\nwhere = deleted_at IS NULL\ngrace = 300ms\nfollow = yes\n"

/* With an outbox, a build asks the follower. */
#define OUTBOX "follow_by = outbox\noutbox = link_outbox\n"

static struct fixture fixture; /* only its Postgres is used */
static struct wired w;
static struct daemon d;
static struct client c;

/* --- the rights that are written down --- */

static char rights[4096]; /* the text after "user twinbloom" */

/* Read the page's lines from "user twinbloom" to the next blank line. */
static void read_rights(void)
{
    static const char begin[] = "    user twinbloom ";
    char line[512];
    FILE *f = fopen(RIGHTS_PAGE, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        bool first = rights[0] == '\0' && strncmp(line, begin, sizeof(begin) - 1) == 0;
        if (!first && rights[0] != '\0' && line[strspn(line, " \n")] == '\0')
            break;
        if (first || rights[0] != '\0')
            (void)strncat(rights, first ? line + sizeof(begin) - 1 : line,
                          sizeof(rights) - strlen(rights) - 1);
    }
    (void)fclose(f);
    assert_true(rights[0] != '\0');
}

/* Split @text into words, and replace the password in them. */
static size_t words_of(char *text, const char **words)
{
    size_t n = 0;
    for (char *word = strtok(text, " \n"); word != NULL && n < WORDS_MAX; word = strtok(NULL, " \n"))
        words[n++] = word[0] == '>' ? ">" PASSWORD : word;
    return n;
}

static void make_user(void)
{
    struct error e = {""};
    struct client redis = {0};
    char text[sizeof(rights)];
    const char *argv[WORDS_MAX + 3] = {"ACL", "SETUSER", "twinbloom"};
    (void)snprintf(text, sizeof(text), "%s", rights);
    size_t n = words_of(text, argv + 3) + 3;
    must(client_open(&redis, w.redis.port, REPLY_MS, &e), e);
    redisReply *r = client_argv(&redis, n, argv, NULL);
    if (r == NULL || r->type != REDIS_REPLY_STATUS)
        fail_msg("ACL SETUSER: %s", r != NULL ? r->str : "no reply");
    freeReplyObject(r);
    client_close(&redis);
}

static void nothing_was_refused(void)
{
    struct error e = {""};
    struct client redis = {0};
    must(client_open(&redis, w.redis.port, REPLY_MS, &e), e);
    redisReply *r = client_command(&redis, "ACL LOG");
    assert_non_null(r);
    for (size_t i = 0; i < r->elements; i++)
        for (size_t j = 0; j + 1 < r->element[i]->elements; j += 2)
            if (strcmp(r->element[i]->element[j]->str, "object") == 0)
                fail_msg("refused: %s", r->element[i]->element[j + 1]->str);
    freeReplyObject(r);
    client_close(&redis);
}

/* True for commands that this test does not need: XTRIM needs entries older than log_retain, STRLEN a lost
 * shard, XLEN a lane that is lost, or where entries are missing. */
static bool is_for_later(const char *word)
{
    return strcmp(word, "+xtrim") == 0 || strcmp(word, "+strlen") == 0 || strcmp(word, "+xlen") == 0;
}

/* The daemon has used every other command that is allowed by "+name" or "+name|part". */
static void nothing_is_superfluous(void)
{
    char text[sizeof(rights)];
    const char *words[WORDS_MAX];
    char unused[512] = "";
    char *stats = strdup(wired_ask(&w, "INFO commandstats"));
    assert_non_null(stats);
    (void)snprintf(text, sizeof(text), "%s", rights);
    size_t n = words_of(text, words);
    for (size_t i = 0; i < n; i++) {
        char name[64];
        if (words[i][0] != '+' || is_for_later(words[i]))
            continue;
        size_t length = strlen(words[i] + 1);
        if (temp_redis_is_before_7()) /* it does not count subcommands apart */
            length = strcspn(words[i] + 1, "|");
        (void)snprintf(name, sizeof(name), "cmdstat_%.*s:", (int)length, words[i] + 1);
        if (strstr(stats, name) == NULL) {
            (void)strncat(unused, words[i], sizeof(unused) - strlen(unused) - 1);
            (void)strncat(unused, " ", sizeof(unused) - strlen(unused) - 1);
        }
    }
    free(stats);
    assert_string_equal(unused, "");
}

/* --- the daemon --- */

static struct daemon_options options(const char *nodes, const char *redis, const char *filters)
{
    return (struct daemon_options){
        .nodes = nodes,
        .dsn = fixture.postgres.dsn,
        .service = "threads = 2\ntimeout = 5s\n",
        .redis = redis,
        .expansion = "lease = 2s\ncheckpoint_interval = 20ms\npage_rows = 500\nreaders = 2\n",
        .filters = filters};
}

static void launch(const char *nodes, const char *redis, const char *filters)
{
    struct error e = {""};
    const struct daemon_options o = options(nodes, redis, filters);
    must(daemon_start(&d, &o, &e), e);
    must(client_open(&c, d.port, REPLY_MS, &e), e);
}

static void land(void)
{
    client_close(&c);
    assert_true(daemon_fini(&d));
}

static void ok(const char *command)
{
    struct error e = {""};
    if (client_ok(&c, &e, command) != ERR_OK) /* NOLINT(clang-diagnostic-format-security) */
        fail_msg("%s: %s", command, e.text);
}

static int64_t number(const char *command)
{
    struct error e = {""};
    int64_t n = 0;
    if (client_integer(&c, &n, &e, command) != ERR_OK) /* NOLINT(clang-diagnostic-format-security) */
        fail_msg("%s: %s", command, e.text);
    return n;
}

/* The command's reply is no error. */
static void answered(const char *command)
{
    redisReply *r = client_command(&c, command); /* NOLINT(clang-diagnostic-format-security) */
    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, r != NULL ? r->str : "no reply");
    freeReplyObject(r);
}

static void wait_for(const char *field, const char *value)
{
    struct error e = {""};
    must(client_wait_status(&c, FILTER, field, value, 2 * REPLY_MS, &e), e);
}

static void all_present(const char *filter, uint64_t count)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_mexists(&c, filter, fixture_code, 0, count, &present, NULL, &e), e);
    assert_int_equal(present, count);
}

static void install_outbox(struct fixture *f)
{
    static const char *const outbox[] = {
        "table=short_link", "id=id", "columns=code, deleted_at", "outbox=link_outbox", "reader=postgres",
        "notify=true",      NULL};
    int status = -1;
    char *output = psql_file(&f->postgres, "outbox", outbox, &status);
    if (status != 0)
        fail_msg("outbox: %s", output);
    free(output);
}

static int start(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    read_rights();
    (void)fixture_start(&fixture,
                        &(struct fixture_options){.postgres = true, .rows = ROWS, .prepare = install_outbox});
    wired_start(&w, "redis", "optional");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    wired_stop(&w);
    return fixture_stop(&fixture);
}

/* --- a whole life --- */

static void live_with_a_source(void)
{
    struct error e = {""};
    wait_for("built", "1");
    wait_for("phase", "STEADY");
    all_present(FILTER, ROWS);
    must(client_madd(&c, FILTER, fixture_absent_code, 0, 500, &e), e);
    ok("TB.REBUILD " FILTER " HOLD");
    wait_for("job_step", "hold");
    ok("TB.PAUSE " FILTER);
    ok("TB.THROTTLE " FILTER " 100000");
    ok("TB.RESUME " FILTER);
    ok("TB.CUTOVER " FILTER);
    wait_for("job_state", "done");
    all_present(FILTER, ROWS);
    ok("TB.REBUILD " FILTER " HOLD");
    wait_for("job_step", "hold");
    ok("TB.ABORT " FILTER);
    wait_for("job_state", "aborted");
    ok("TB.VERIFY " FILTER);
    wait_for("job_state", "done");
    wait_for("verification", "passed");
    answered("TB.PLAN " FILTER);
    answered("TB.HISTORY " FILTER);
    answered("TB.COORDINATORS " FILTER);
}

static void live_without_one(void)
{
    struct error e = {""};
    struct dump dump = {0};
    ok("BF.RESERVE grown 0.01 200");
    must(client_madd(&c, "grown", fixture_code, 0, 1500, &e), e); /* in several layers */
    all_present("grown", 1500);
    answered("BF.INFO grown");
    assert_true(number("BF.CARD grown") > 1400);
    assert_true(number("TB.COUNT grown") > 1300);
    must(dump_rest(&dump, &c, "grown", &e), e);
    for (size_t i = 0; i + 1 < dump.count; i++)
        must(dump_load(&dump.piece[i], &c, "loaded", &e), e);
    answered("TB.LOAD loaded"); /* tells what is missing */
    must(dump_load(&dump.piece[dump.count - 1], &c, "loaded", &e), e);
    dump_free(&dump);
    all_present("loaded", 1500);
    answered("TB.STATUS");
    answered("SCAN 0");
    assert_int_equal(number("DBSIZE"), 3);
    assert_int_equal(number("EXPIRE loaded 100"), 1);
    assert_int_equal(number("PERSIST loaded"), 1);
    assert_int_equal(number("PEXPIRE loaded 300"), 1);
    for (int i = 0; i < 400 && number("EXISTS loaded") == 1; i++)
        clock_sleep_us(50000);
    assert_int_equal(number("EXISTS loaded"), 0);
    assert_int_equal(number("DEL grown"), 1);
    assert_int_equal(number("EXISTS grown"), 0);
}

/* The filter's view is lost, and its shards stay. The coordinator finds the shards and builds the filter
 * again. */
static void lose_the_view(int database)
{
    struct error e = {""};
    struct client redis = {0};
    int64_t n = 0;
    must(client_open(&redis, w.redis.port, REPLY_MS, &e), e);
    must(client_ok(&redis, &e, "SELECT %d", database), e);
    must(client_integer(&redis, &n, &e, "DEL twinbloom:{" FILTER "}:view"), e);
    assert_int_equal(n, 1);
    client_close(&redis);
    for (int i = 0; i < 400; i++) {
        char text[16];
        if (client_status(&c, FILTER, "epoch", text, sizeof(text), &e) == ERR_OK && strlen(text) > 0 &&
            strcmp(text, "0") != 0)
            break;
        clock_sleep_us(50000);
    }
    wait_for("built", "1");
    wait_for("phase", "STEADY");
    all_present(FILTER, ROWS);
}

static void test_daemon__lives_with_the_least_rights_by_every_way(void **state)
{
    (void)state;
    char nodes[2 * PATH_MAX], tls[4 * PATH_MAX];
    make_user();
    (void)wired_ask(&w, "ACL LOG RESET");
    (void)wired_ask(&w, "CONFIG RESETSTAT");
    assert_string_equal(wired_ask(&w, "CONFIG SET tls-auth-clients yes"), "OK");
    for (int way = 0; way < 2; way++) {
        if (way == 0)
            (void)snprintf(nodes, sizeof(nodes), "unix://twinbloom:" PASSWORD "@%s?db=1", w.socket);
        else
            (void)snprintf(nodes, sizeof(nodes), "rediss://twinbloom:" PASSWORD "@localhost:%u", w.tls_port);
        (void)snprintf(tls, sizeof(tls), "tls_ca_file = %s\ntls_cert_file = %s\ntls_key_file = %s\n",
                       wired_file(&w, "ours.crt"), wired_file(&w, "client.crt"),
                       wired_file(&w, "client.key"));
        launch(nodes, way == 0 ? "" : tls, way == 0 ? SOURCED : SOURCED OUTBOX);
        live_with_a_source();
        live_without_one();
        lose_the_view(way == 0 ? 1 : 0);
        nothing_was_refused();
        land();
        assert_string_equal(wired_ask(&w, "FLUSHALL"), "OK");
    }
    nothing_is_superfluous();
    assert_string_equal(wired_ask(&w, "CONFIG SET tls-auth-clients optional"), "OK");
}

/* --- certificates that change --- */

static enum err try_reload(const char *redis, struct error *e)
{
    char nodes[64];
    (void)snprintf(nodes, sizeof(nodes), "rediss://localhost:%u", w.tls_port);
    const struct daemon_options o = options(nodes, redis, NULL);
    must(daemon_rewrite(&d, &o, e), *e);
    return daemon_reload(&d, e);
}

/* Close all connections over TLS, so that the daemon connects again. */
static void cut(void)
{
    (void)wired_ask(&w, "CLIENT KILL TYPE normal SKIPME yes");
    (void)wired_ask(&w, "CLIENT KILL TYPE pubsub SKIPME yes");
}

static void wait_info(const char *part)
{
    for (int i = 0; i < 400; i++) {
        redisReply *r = client_command(&c, "INFO nodes");
        bool found = r != NULL && strstr(r->str, part) != NULL;
        if (i == 399)
            (void)fprintf(stderr, "wanted %s in %s", part, r != NULL ? r->str : "nothing");
        freeReplyObject(r);
        if (found)
            return;
        clock_sleep_us(50000);
    }
    fail();
}

static void test_certificates__are_read_anew_for_new_connections(void **state)
{
    (void)state;
    struct error e = {""};
    char nodes[64], ours[PATH_MAX + 64], theirs[PATH_MAX + 64];
    (void)snprintf(nodes, sizeof(nodes), "rediss://localhost:%u", w.tls_port);
    (void)snprintf(ours, sizeof(ours), "tls_ca_file = %s\n", wired_file(&w, "ours.crt"));
    (void)snprintf(theirs, sizeof(theirs), "tls_ca_file = %s\n", wired_file(&w, "theirs.crt"));
    launch(nodes, ours, NULL);
    assert_int_equal(number("BF.ADD f key"), 1);
    wait_info("name=localhost:");
    wait_info("state=up");
    must(try_reload(theirs, &e), e);
    assert_int_equal(number("BF.EXISTS f key"), 1); /* open connections stay */
    cut();
    wait_info("state=down");
    wait_info("its certificate is not accepted");
    assert_int_equal(number("BF.EXISTS f key"), 1); /* the key is in memory */
    redisReply *r = client_command(&c, "BF.EXISTS f absent");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(r->str, "its certificate is not accepted"));
    freeReplyObject(r);
    assert_int_equal(try_reload("tls_ca_file = /nowhere.crt\n", &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "tls_ca_file = /nowhere.crt: No such file"));
    wait_info("state=down");
    must(try_reload(ours, &e), e);
    wait_info("state=up");
    assert_int_equal(number("BF.EXISTS f key"), 1);
    char *log = process_log(&d.process);
    assert_null(strstr(log, "event=redis_tls_unverified"));
    free(log);
    must(try_reload("tls_verify = no\n", &e), e);
    log = process_log(&d.process);
    assert_non_null(strstr(log, "level=warn event=redis_tls_unverified note=\"tls_verify = no"));
    free(log);
    cut();
    assert_int_equal(number("BF.EXISTS f key"), 1);
    land();
    assert_string_equal(wired_ask(&w, "FLUSHALL"), "OK");
}

/* --- a node that is away --- */

static struct temp_redis other;

static void status_says(const char *field, const char *part)
{
    struct error e = {""};
    char text[256] = "";
    must(client_status(&c, "f", field, text, sizeof(text), &e), e);
    if (*part == '\0' ? *text != '\0' : strstr(text, part) == NULL)
        fail_msg("%s is %s", field, text);
}

static void test_status__says_which_node_is_away(void **state)
{
    (void)state;
    struct error e = {""};
    char nodes[2 * PATH_MAX], name[32], down[128];
    must(temp_redis_start(&other, NULL, &e), e);
    (void)snprintf(name, sizeof(name), "127.0.0.1:%u", other.port);
    (void)snprintf(nodes, sizeof(nodes), "unix://%s, redis://%s", w.socket, name);
    launch(nodes, NULL, "[filter f]\ncapacity = 20000000\n"); /* has many shards */
    must(client_wait_status(&c, "f", "state", "serving", REPLY_MS, &e), e);
    must(client_madd(&c, "f", fixture_code, 0, 100, &e), e);
    status_says("nodes", w.socket);
    status_says("nodes", name);
    status_says("nodes_down", "");
    temp_redis_kill(&other);
    (void)snprintf(down, sizeof(down), "node1:name=%s,state=down,", name);
    wait_info(down);
    wait_info("node0:name=/");
    wait_info("last_error=Connection refused");
    status_says("nodes_down", name);
    status_says("nodes_down", "refused");
    struct http_reply r = http_ask(d.http_port, "GET", "/v1/filters/f", NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "\"nodes_down\":\"127.0.0.1:"));
    http_reply_fini(&r);
    must(temp_redis_restart(&other, false, &e), e);
    (void)snprintf(down, sizeof(down), "node1:name=%s,state=up,", name);
    wait_info(down);
    status_says("nodes_down", "");
    land();
    temp_redis_fini(&other);
    assert_string_equal(wired_ask(&w, "FLUSHALL"), "OK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_daemon__lives_with_the_least_rights_by_every_way),
        cmocka_unit_test(test_certificates__are_read_anew_for_new_connections),
        cmocka_unit_test(test_status__says_which_node_is_away),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
