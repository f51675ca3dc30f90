/* SPDX-License-Identifier: MIT */
/* The doctor: nothing to complain of where all is well; of each fault its line, with what to do. By the
 * command line, which asks a coordinator, and by a daemon that does not serve. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "service/doctor.h"

enum { ROWS = 2000, CAPACITY = 4000, TEXT_MAX = 32768, WAIT_MS = 20000 };

#define WITH_TABLE(more)                                                                                     \
    "[filter links]\ncapacity = 4000\nerror_rate = 0.01\ntable = short_link\nid_column = id\nkey = "         \
    "code\n" more

static struct fixture fixture;
static struct client redis;

/* --- asking --- */

struct result {
    int code;
    char text[TEXT_MAX];
};

/* twinbloom doctor. Main thread only. */
static const struct result *by_command(const char *options)
{
    static struct result result;
    char line[1024];
    (void)snprintf(line, sizeof(line),
                   "env -u TWINBLOOM_PASSWORD TWINBLOOM_URL=redis://127.0.0.1:%u %s doctor %s 2>&1",
                   fixture.client[0].port, TWINBLOOM_CLI, options);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = fread(result.text, 1, sizeof(result.text) - 1, pipe);
    result.text[n] = '\0';
    int status = pclose(pipe);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return &result;
}

/* twinbloomd --doctor, with a configuration of its own. Main thread only. */
static const struct result *alone_by(const struct daemon_options *o)
{
    static struct result result;
    struct daemon d = {0};
    struct error e = {""};
    char *output = NULL;
    must(daemon_prepare(&d, o, &e), e);
    must(daemon_run(&d, "--doctor", &output, &result.code, &e), e);
    (void)snprintf(result.text, sizeof(result.text), "%s", output);
    free(output);
    assert_true(daemon_fini(&d));
    return &result;
}

/* The same with nodes, a dsn, lines of [redis] and filters. */
static const struct result *alone(const char *nodes, const char *dsn, const char *lines, const char *filters)
{
    return alone_by(&(struct daemon_options){.nodes = nodes, .dsn = dsn, .redis = lines, .filters = filters});
}

/* A line "state probe ... part" is there; with @remedy, in the line that follows. */
static void says(const struct result *r, const char *state, const char *probe, const char *part,
                 const char *remedy)
{
    char begin[64];
    (void)snprintf(begin, sizeof(begin), "%-8s %-13s ", state, probe);
    for (const char *line = r->text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *end = strchr(line, '\n'), *found = strstr(line, part);
        if (strncmp(line, begin, strlen(begin)) != 0 || end == NULL || found == NULL || found > end)
            continue;
        if (remedy == NULL)
            return;
        const char *next_end = strchr(end + 1, '\n'), *what = strstr(end + 1, remedy);
        if (next_end != NULL && what != NULL && what < next_end)
            return;
    }
    fail_msg("no line \"%s\" with \"%s\" and \"%s\" in:\n%s", begin, part, remedy != NULL ? remedy : "",
             r->text);
}

/* Both ways: a problem, and exit status 1. */
static void is_problem(const char *probe, const char *part, const char *remedy)
{
    const struct result *r = by_command("");
    says(r, "problem", probe, part, remedy);
    assert_int_equal(r->code, 1);
    r = alone(fixture.node_list, fixture.postgres.dsn, "", "");
    says(r, "problem", probe, part, remedy);
    assert_int_equal(r->code, 1);
}

static void ask_redis(const char *command)
{
    struct error e = {""};
    must(client_ok(&redis, &e, command), e);
}

static int setup(void **state)
{
    (void)state;
    static const char *const arguments[] = {"--appendonly", "yes", NULL};
    const struct fixture_options o = {.nodes = 1,
                                      .daemons = 1,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = CAPACITY,
                                      .rate = "0.01",
                                      .settings = "wal_level = replica\n",
                                      .redis = arguments};
    struct error e = {""};
    if (fixture_start(&fixture, &o) != 0)
        return -1;
    must(client_open(&redis, fixture.redis[0].port, 5000, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&redis);
    return fixture_stop(&fixture);
}

/* --- all is well --- */

static void all_is_well(const struct result *r)
{
    if (r->code != 0 || strstr(r->text, " 0 warnings, 0 problems\n") == NULL)
        fail_msg("exit status %d:\n%s", r->code, r->text);
}

/* The roster has every probe's say, too: a coordinator is there after a second. */
static void test_doctor__complains_of_nothing_where_all_is_well(void **state)
{
    (void)state;
    const char *name, *what;
    const struct result *r = by_command("");
    for (unsigned spent = 0; strstr(r->text, "1, which agree") == NULL && spent < WAIT_MS; spent += 100) {
        clock_sleep_us(100 * 1000);
        r = by_command("");
    }
    all_is_well(r);
    says(r, "ok", "redis", "127.0.0.1:", NULL);
    says(r, "ok", "table", FILTER ": short_link: 2000 rows", NULL);
    says(r, "ok", "coordinators", "1, which agree", NULL);
    for (size_t i = 0; doctor_probe(i, &name, &what); i++)
        if (strcmp(name, "standby") != 0 && strcmp(name, "slots") != 0) /* there are none */
            says(r, "ok", name, "", NULL);
    all_is_well(alone(fixture.node_list, fixture.postgres.dsn, "", WITH_TABLE("")));
    redisReply *left = client_command(&redis, "KEYS *doctor*");
    assert_non_null(left);
    assert_int_equal(left->elements, 0);
    freeReplyObject(left);
}

static void test_doctor__prints_json(void **state)
{
    (void)state;
    const struct result *r = by_command("--json");
    assert_int_equal(r->code, 0);
    assert_ptr_equal(strstr(r->text, "[{\"probe\":\"redis\",\"subject\":\"127.0.0.1:"), r->text);
    assert_non_null(strstr(r->text, "\"state\":\"ok\",\"found\":\""));
    assert_non_null(strstr(r->text, "\"remedy\":\"\"}"));
}

/* --- Redis --- */

static void test_doctor__complains_of_eviction(void **state)
{
    (void)state;
    ask_redis("CONFIG SET maxmemory-policy allkeys-lru");
    says(by_command(""), "warning", "memory", "maxmemory-policy is allkeys-lru", "noeviction");
    ask_redis("CONFIG SET maxmemory 1gb");
    is_problem("memory", "maxmemory-policy is allkeys-lru", "CONFIG SET maxmemory-policy noeviction");
    ask_redis("CONFIG SET maxmemory-policy noeviction");
    says(by_command(""), "ok", "memory", "1073741824 bytes (maxmemory)", NULL);
    ask_redis("CONFIG SET maxmemory 0");
}

static void test_doctor__complains_of_data_that_a_restart_loses(void **state)
{
    (void)state;
    ask_redis("CONFIG SET appendonly no");
    const struct result *r = by_command("");
    says(r, "warning", "persistence", "a restart of Redis loses", "appendonly yes");
    assert_int_equal(r->code, 0); /* a warning is no problem */
    ask_redis("CONFIG SET appendonly yes");
}

static void test_doctor__complains_of_commands_that_are_not_allowed(void **state)
{
    (void)state;
    ask_redis("ACL SETUSER default -eval -subscribe");
    is_problem("commands", "not allowed: eval subscribe", "+eval +subscribe");
    ask_redis("ACL SETUSER default +eval +subscribe");
    ask_redis("ACL SETUSER few on >pw ~other:* &twinbloom:events +@all");
    char nodes[96];
    (void)snprintf(nodes, sizeof(nodes), "redis://few:pw@127.0.0.1:%u", fixture.redis[0].port);
    says(alone(nodes, NULL, "", ""), "problem", "commands", "not allowed: set get",
         "ACL SETUSER few ~twinbloom:*");
}

/* Each one by itself. */
static void test_doctor__tries_every_command(void **state)
{
    (void)state;
    const char *name, *when;
    char nodes[96], part[64], rule[128];
    (void)snprintf(nodes, sizeof(nodes), "redis://one:pw@127.0.0.1:%u", fixture.redis[0].port);
    for (size_t i = 0; doctor_command(i, &name, &when); i++) {
        if (when[0] != '\0' || strcmp(name, "info") == 0) /* without INFO nothing can be said at all */
            continue;
        (void)snprintf(rule, sizeof(rule), "ACL SETUSER one reset on >pw ~* &* +@all -%s", name);
        (void)snprintf(part, sizeof(part), "not allowed: %s (", name);
        ask_redis(rule);
        says(alone(nodes, NULL, "", ""), "problem", "commands", part, NULL);
    }
    ask_redis("ACL SETUSER one reset on >pw ~* &* +@all -wait");
    says(alone(nodes, NULL, "add_acks = 1\n", ""), "problem", "commands", "not allowed: wait (", "+wait");
}

/* What a rule on the page lists is what is tried. */
static void test_doctor__tries_what_the_page_of_rights_names(void **state)
{
    (void)state;
    static char page[65536], tried[4096] = " ";
    const char *name, *when;
    FILE *f = fopen(RIGHTS_PAGE, "re");
    assert_non_null(f);
    size_t n = fread(page, 1, sizeof(page) - 1, f);
    page[n] = '\0';
    (void)fclose(f);
    for (size_t i = 0; doctor_command(i, &name, &when); i++) {
        char word[64];
        (void)snprintf(word, sizeof(word), "+%s", name);
        const char *at = strstr(page, word);
        if (at == NULL || strchr(" \n`)", at[strlen(word)]) == NULL)
            fail_msg("%s is not on the page", word);
        (void)snprintf(tried + strlen(tried), sizeof(tried) - strlen(tried), "+%s ", name);
    }
    const char *at = strstr(page, "    user twinbloom on"), *end = strstr(at, "\n\n");
    while ((at = strchr(at, '+')) != NULL && at < end) {
        char word[64];
        (void)snprintf(word, sizeof(word), " %.*s ", (int)strcspn(at, " \n"), at);
        if (strstr(" +select +client|setname ", word) == NULL && strstr(tried, word) == NULL)
            fail_msg("%s is on the page, and is not tried", word);
        at++;
    }
}

/* Each probe has its line in the table. */
static void test_doctor__is_described_by_the_page_on_installing(void **state)
{
    (void)state;
    static char page[65536];
    const char *name, *what;
    char row[256];
    FILE *f = fopen(INSTALL_PAGE, "re");
    assert_non_null(f);
    size_t n = fread(page, 1, sizeof(page) - 1, f);
    page[n] = '\0';
    (void)fclose(f);
    for (size_t i = 0; doctor_probe(i, &name, &what); i++) {
        (void)snprintf(row, sizeof(row), "| `%s` | %s |\n", name, what);
        if (strstr(page, row) == NULL)
            fail_msg("not on the page: %s", row);
    }
}

static void test_doctor__complains_of_missing_replicas(void **state)
{
    (void)state;
    const struct result *r = alone(fixture.node_list, NULL, "add_acks = 1\n", "");
    says(r, "problem", "replicas", "add_acks = 1, but 0 replicas are in step", "add replicas");
    assert_int_equal(r->code, 1);
}

static void test_doctor__complains_of_a_replica_for_a_node(void **state)
{
    (void)state;
    struct temp_redis replica = {0};
    struct error e = {""};
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", fixture.redis[0].port);
    const char *const arguments[] = {"--replicaof", "127.0.0.1", port, NULL};
    must(temp_redis_start(&replica, arguments, &e), e);
    says(alone(replica.url, NULL, "", ""), "problem", "redis", "it is a replica of another server",
         "name a master");
    bool in_step = false;
    for (unsigned spent = 0; !in_step && spent < WAIT_MS; spent += 100) {
        clock_sleep_us(100 * 1000);
        in_step = strstr(alone(fixture.node_list, NULL, "add_acks = 1\nread_from = replica\n", "")->text,
                         "1 replicas in step, 1 needed") != NULL;
    }
    assert_true(in_step);
    temp_redis_fini(&replica);
}

/* The daemon's clock is a minute ahead. */
static void test_doctor__complains_of_clocks_that_differ(void **state)
{
    (void)state;
    const char *asan = getenv("ASAN_OPTIONS");
    char path[PATH_MAX + 16], more[1024];
    const int64_t ahead = 60;
    (void)snprintf(path, sizeof(path), "%s/clock", fixture.redis[0].directory);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(&ahead, sizeof(ahead), 1, f), 1);
    (void)fclose(f);
    char *before = asan == NULL ? NULL : strdup(asan);
    (void)snprintf(more, sizeof(more), "%s:verify_asan_link_order=0", before == NULL ? "" : before);
    assert_int_equal(setenv("ASAN_OPTIONS", more, 1), 0);
    assert_int_equal(setenv("FAULT_CLOCK", path, 1), 0);
    assert_int_equal(setenv("LD_PRELOAD", CLOCK_PRELOAD, 1), 0);
    const struct result *r = alone(fixture.node_list, fixture.postgres.dsn, "", WITH_TABLE(""));
    (void)unsetenv("LD_PRELOAD");
    (void)unsetenv("FAULT_CLOCK");
    (void)(before == NULL ? unsetenv("ASAN_OPTIONS") : setenv("ASAN_OPTIONS", before, 1));
    free(before);
    says(r, "warning", "clock", " ms behind the one here", "NTP");
    says(r, "warning", "clock", "postgres: its clock is ", "NTP");
    assert_int_equal(r->code, 0);
}

static void test_doctor__complains_of_a_standby_that_is_away(void **state)
{
    (void)state;
    struct daemon_options o = {.nodes = fixture.node_list,
                               .dsn = fixture.postgres.dsn,
                               .filters = WITH_TABLE(""),
                               .postgres = "read_dsn = host=127.0.0.1 port=1 dbname=postgres\n"};
    says(alone_by(&o), "problem", "standby", "", "check [postgres] read_dsn");
}

static void test_doctor__complains_of_a_node_that_is_away(void **state)
{
    (void)state;
    char nodes[sizeof(fixture.node_list) + 32];
    (void)snprintf(nodes, sizeof(nodes), "%s, redis://127.0.0.1:1", fixture.node_list);
    const struct result *r = alone(nodes, NULL, "", "");
    says(r, "problem", "redis", "127.0.0.1:1: ", "check its address");
    says(r, "ok", "memory", "", NULL); /* of the other one */
    assert_int_equal(r->code, 1);
}

/* --- those who work together --- */

static void test_doctor__complains_of_other_nodes(void **state)
{
    (void)state;
    redisReply *r = client_command(&redis, "GET twinbloom:nodes");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    ask_redis("SET twinbloom:nodes 10.9.8.7:6379");
    is_problem("nodes", "\"10.9.8.7:6379\" for those who keep filters", "the same for all coordinators");
    struct error e = {""};
    must(client_ok(&redis, &e, "SET twinbloom:nodes %s", r->str), e);
    freeReplyObject(r);
}

/* A record as a coordinator writes it. */
static void pose(const char *nodes, const char *version)
{
    static const char key[] = "twinbloom:{twinbloom:coordinators}:posed";
    struct error e = {""};
    int64_t n;
    must(client_integer(
             &redis, &n, &e,
             "HSET %s host h version %s format 2 state serving nodes %s redis ok postgres ok keep_ms 3600000",
             key, version, nodes),
         e);
    must(client_integer(&redis, &n, &e, "PEXPIRE %s 3600000", key), e);
    must(client_integer(&redis, &n, &e, "SADD twinbloom:coordinators posed"), e);
}

static void test_doctor__complains_of_coordinators_that_disagree(void **state)
{
    (void)state;
    char own[64];
    (void)snprintf(own, sizeof(own), "127.0.0.1:%u", fixture.redis[0].port);
    pose("10.9.8.7:6379", TWINBLOOM_VERSION);
    is_problem("coordinators",
               "posed: its nodes are 10.9.8.7:6379; here they are 127.0.0.1:", "the same [redis] nodes");
    pose(own, "9.9.9");
    says(by_command(""), "warning", "coordinators", "posed: its version is 9.9.9", "upgrade");
    struct error e = {""};
    int64_t n;
    must(client_integer(&redis, &n, &e, "SREM twinbloom:coordinators posed"), e);
}

/* --- Postgres --- */

/* The dsn of a role of that name. */
static const char *dsn_of(const char *role)
{
    static char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u dbname=postgres user=%s", fixture.postgres.port,
                   role);
    return dsn;
}

static void test_doctor__complains_of_missing_rights(void **state)
{
    (void)state;
    fixture_sql(fixture.db, "CREATE ROLE poor LOGIN");
    const struct result *r = alone(fixture.node_list, dsn_of("poor"), "", WITH_TABLE(""));
    says(r, "problem", "table", "links: table public.short_link may not be read", "GRANT SELECT ON");
    says(r, "warning", "rights", "role poor does not see other sessions", "GRANT pg_read_all_stats TO poor");
    assert_int_equal(r->code, 1);
    fixture_sql(fixture.db, "GRANT SELECT ON short_link TO poor; GRANT pg_read_all_stats TO poor");
    all_is_well(alone(fixture.node_list, dsn_of("poor"), "", WITH_TABLE("")));
}

static void test_doctor__complains_of_a_table_that_does_not_fit(void **state)
{
    (void)state;
    fixture_sql(fixture.db, "CREATE TABLE bare (id bigint NOT NULL, code text)");
    says(alone(fixture.node_list, fixture.postgres.dsn, "",
               "[filter bare]\ncapacity = 10\nerror_rate = 0.01\ntable = bare\nid_column = id\nkey = code\n"),
         "problem", "table", "bare: table public.bare: column \"id\" has no unique index",
         "CREATE UNIQUE INDEX");
}

static void test_doctor__complains_of_a_database_that_is_away(void **state)
{
    (void)state;
    const struct result *r =
        alone(fixture.node_list, "host=127.0.0.1 port=1 dbname=postgres", "", WITH_TABLE(""));
    says(r, "problem", "postgres", "", "check [postgres] dsn");
    assert_null(strstr(r->text, " table "));
    assert_int_equal(r->code, 1);
}

static void test_doctor__complains_of_long_transactions(void **state)
{
    (void)state;
    PGconn *other = PQconnectdb(fixture.postgres.dsn);
    assert_int_equal(PQstatus(other), CONNECTION_OK);
    fixture_sql(other, "BEGIN; CREATE TABLE prepared (n int); PREPARE TRANSACTION 'left'");
    const struct result *r = by_command("");
    fixture_sql(other, "ROLLBACK PREPARED 'left'");
    PQfinish(other);
    says(r, "warning", "transactions", "1 prepared transactions", "pg_prepared_xacts");
}

/* --- logical replication --- */

static void restart_postgres(const char *sql)
{
    struct error e = {""};
    fixture_sql(fixture.db, sql);
    PQfinish(fixture.db);
    fixture.db = NULL;
    temp_postgres_stop(&fixture.postgres);
    must(temp_postgres_restart(&fixture.postgres, &e), e);
    fixture.db = PQconnectdb(fixture.postgres.dsn);
    assert_int_equal(PQstatus(fixture.db), CONNECTION_OK);
}

#define LOGICAL WITH_TABLE("follow_by = logical\npublication = links\n")

/* Noted as a coordinator does it. */
static void note_slot(const char *slot)
{
    struct error e = {""};
    int64_t n;
    PGresult *r = PQexec(fixture.db, "SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || "
                                     "current_database()");
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    must(client_integer(&redis, &n, &e, "HSET twinbloom:slots %s/%s 1:links", PQgetvalue(r, 0, 0), slot), e);
    PQclear(r);
}

/* The last one: the server is started anew. */
static void test_doctor__complains_of_logical_replication(void **state)
{
    (void)state;
    fixture_sql(fixture.db,
                "CREATE PUBLICATION links FOR TABLE short_link WITH (publish = 'insert, update')");
    says(alone(fixture.node_list, fixture.postgres.dsn, "", LOGICAL), "problem", "follower",
         "links: wal_level is not logical", "ALTER SYSTEM SET wal_level = logical");
    restart_postgres("ALTER SYSTEM SET wal_level = logical");
    says(alone(fixture.node_list, dsn_of("poor"), "", LOGICAL), "problem", "follower",
         "role poor may not replicate", "ALTER ROLE poor REPLICATION");
    const struct result *r = alone(fixture.node_list, fixture.postgres.dsn, "", LOGICAL);
    all_is_well(r);
    says(r, "ok", "follower", "by logical replication", NULL);
    fixture_sql(fixture.db, "SELECT pg_create_logical_replication_slot('twinbloom_links', 'pgoutput'), "
                            "pg_create_logical_replication_slot('forgotten', 'pgoutput')");
    note_slot("twinbloom_links");
    note_slot("forgotten");
    r = alone(fixture.node_list, fixture.postgres.dsn, "", LOGICAL);
    says(r, "ok", "slots", "twinbloom_links: not in use now", NULL);
    says(r, "warning", "slots", "forgotten: no filter of this configuration uses it", "slot_grace");
    fixture_sql(fixture.db,
                "SELECT pg_drop_replication_slot('twinbloom_links'), pg_drop_replication_slot('forgotten')");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doctor__complains_of_nothing_where_all_is_well),
        cmocka_unit_test(test_doctor__prints_json),
        cmocka_unit_test(test_doctor__complains_of_eviction),
        cmocka_unit_test(test_doctor__complains_of_data_that_a_restart_loses),
        cmocka_unit_test(test_doctor__complains_of_commands_that_are_not_allowed),
        cmocka_unit_test(test_doctor__tries_every_command),
        cmocka_unit_test(test_doctor__tries_what_the_page_of_rights_names),
        cmocka_unit_test(test_doctor__is_described_by_the_page_on_installing),
        cmocka_unit_test(test_doctor__complains_of_missing_replicas),
        cmocka_unit_test(test_doctor__complains_of_a_replica_for_a_node),
        cmocka_unit_test(test_doctor__complains_of_clocks_that_differ),
        cmocka_unit_test(test_doctor__complains_of_a_standby_that_is_away),
        cmocka_unit_test(test_doctor__complains_of_a_node_that_is_away),
        cmocka_unit_test(test_doctor__complains_of_other_nodes),
        cmocka_unit_test(test_doctor__complains_of_coordinators_that_disagree),
        cmocka_unit_test(test_doctor__complains_of_missing_rights),
        cmocka_unit_test(test_doctor__complains_of_a_table_that_does_not_fit),
        cmocka_unit_test(test_doctor__complains_of_a_database_that_is_away),
        cmocka_unit_test(test_doctor__complains_of_long_transactions),
        cmocka_unit_test(test_doctor__complains_of_logical_replication),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
