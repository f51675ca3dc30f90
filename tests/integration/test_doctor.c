/* SPDX-License-Identifier: MIT */
/* The doctor reports no problem in a healthy installation, and each fault of Redis in its line, with a
 * remedy. */
#include "tests/integration/doctoring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/doctor/doctor_internal.h"
#include "tests/lib/certificates.h"

/* --- all is well --- */

/* The list of members shows every probe's result; a coordinator enters it after a second. */
static void test_doctor__complains_of_nothing_where_all_is_well(void **state)
{
    (void)state;
    const struct cli_result *r = by_command("");
    for (unsigned spent = 0; strstr(r->text, "1, which agree") == NULL && spent < DOCTORING_WAIT_MS;
         spent += 100) {
        clock_sleep_us(100 * 1000);
        r = by_command("");
    }
    all_is_well(r);
    says(r, temp_redis_is_before_7() ? "warning" : "ok", "redis", "127.0.0.1:", NULL);
    says(r, "ok", "table", FILTER ": short_link: 2000 rows", NULL);
    says(r, "ok", "coordinators", "1, which agree", NULL);
    for (size_t i = 0; i < doctor_probe_count; i++) {
        const char *name = doctor_probes[i].name;
        if (strcmp(name, "redis") != 0 && strcmp(name, "standby") != 0 && strcmp(name, "slots") != 0 &&
            strcmp(name, "certificates") != 0) /* there are no standbys, slots and certificates */
            says(r, "ok", name, "", NULL);
    }
    all_is_well(alone(fixture.node_list, fixture.postgres.dsn, "", WITH_TABLE("")));
    redisReply *left = client_command(&redis, "KEYS *doctor*");
    assert_non_null(left);
    assert_int_equal(left->elements, 0);
    freeReplyObject(left);
}

static void test_doctor__prints_json(void **state)
{
    (void)state;
    const struct cli_result *r = by_command("--json");
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
    const struct cli_result *r = by_command("");
    says(r, "warning", "persistence", "a restart of Redis loses", "appendonly yes");
    assert_int_equal(r->code, 0); /* a warning is no problem */
    ask_redis("CONFIG SET appendonly yes");
}

static void test_doctor__complains_of_full_memory(void **state)
{
    (void)state;
    ask_redis("CONFIG SET maxmemory 1");
    is_problem("memory", " of 1 bytes): adds and rebuilds fail", "raise maxmemory");
    ask_redis("CONFIG SET maxmemory 0");
}

/* Write a snapshot, and wait until INFO shows its result. */
static void save(const char *status)
{
    char line[64];
    (void)snprintf(line, sizeof(line), "rdb_last_bgsave_status:%s\r\n", status);
    freeReplyObject(client_command(&redis, "BGSAVE SCHEDULE"));
    for (unsigned spent = 0; spent < DOCTORING_WAIT_MS; spent += 20) {
        redisReply *r = client_command(&redis, "INFO persistence");
        assert_non_null(r);
        bool ended = strstr(r->str, line) != NULL && strstr(r->str, "rdb_bgsave_in_progress:0") != NULL;
        freeReplyObject(r);
        if (ended)
            return;
        clock_sleep_us(20000);
    }
    fail_msg("no snapshot ended with %s", status);
}

/* A directory is in the place of the file. */
static void test_doctor__complains_of_a_snapshot_that_failed(void **state)
{
    (void)state;
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/data/dump.rdb", fixture.redis[0].directory);
    (void)unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    save("err");
    is_problem("persistence", "rdb_last_bgsave_status is err: Redis could not write",
               "the space on its disk");
    assert_int_equal(rmdir(path), 0);
    save("ok");
    says(by_command(""), "ok", "persistence", "appendonly yes", NULL);
}

static void test_doctor__complains_of_commands_that_are_renamed(void **state)
{
    (void)state;
    struct temp_redis renamed = {0};
    struct error e = {""};
    static const char *const arguments[] = {
        "--rename-command", "STRLEN", "", "--rename-command", "SSCAN", "other", NULL};
    must(temp_redis_start(&renamed, arguments, &e), e);
    says(alone(renamed.url, NULL, "", ""), "problem", "commands", "the server does not have: strlen sscan",
         "undo rename-command");
    temp_redis_fini(&renamed);
}

static void test_doctor__complains_of_commands_that_are_not_allowed(void **state)
{
    (void)state;
    ask_redis("ACL SETUSER default -eval -subscribe");
    is_problem("commands", "not allowed: eval subscribe", "+eval +subscribe");
    ask_redis("ACL SETUSER default +eval +subscribe");
    ask_redis("ACL SETUSER few on >pw ~other:* resetchannels &twinbloom:events +@all");
    char nodes[96];
    (void)snprintf(nodes, sizeof(nodes), "redis://few:pw@127.0.0.1:%u", fixture.redis[0].port);
    says(alone(nodes, NULL, "", ""), "problem", "commands", "not allowed: set get",
         "ACL SETUSER few ~twinbloom:*");
}

/* Each command is denied alone. */
static void test_doctor__tries_every_command(void **state)
{
    (void)state;
    char nodes[96], part[64], rule[128];
    (void)snprintf(nodes, sizeof(nodes), "redis://one:pw@127.0.0.1:%u", fixture.redis[0].port);
    for (size_t i = 0; i < doctor_command_count; i++) {
        const char *name = doctor_command_rows[i].name;
        if (doctor_command_rows[i].needed != NULL ||
            strcmp(name, "info") == 0) /* without INFO the doctor can report nothing */
            continue;
        if (temp_redis_is_before_7() && strchr(name, '|') != NULL) /* no rule denies a subcommand alone */
            continue;
        (void)snprintf(rule, sizeof(rule), "ACL SETUSER one reset on >pw ~* &* +@all -%s", name);
        (void)snprintf(part, sizeof(part), "not allowed: %s (", name);
        ask_redis(rule);
        says(alone(nodes, NULL, "", ""), "problem", "commands", part, NULL);
    }
    ask_redis("ACL SETUSER one reset on >pw ~* &* +@all -wait");
    says(alone(nodes, NULL, "add_acks = 1\n", ""), "problem", "commands", "not allowed: wait (", "+wait");
}

/* The doctor tries exactly the commands that the page's rule lists. */
static void test_doctor__tries_what_the_page_of_rights_names(void **state)
{
    (void)state;
    static char page[65536], tried[4096] = " ";
    FILE *f = fopen(RIGHTS_PAGE, "re");
    assert_non_null(f);
    size_t n = fread(page, 1, sizeof(page) - 1, f);
    page[n] = '\0';
    (void)fclose(f);
    for (size_t i = 0; i < doctor_command_count; i++) {
        const char *name = doctor_command_rows[i].name;
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

/* Each probe has its line in the page's table. */
static void test_doctor__is_described_by_the_page_on_installing(void **state)
{
    (void)state;
    static char page[65536];
    char row[256];
    FILE *f = fopen(INSTALL_PAGE, "re");
    assert_non_null(f);
    size_t n = fread(page, 1, sizeof(page) - 1, f);
    page[n] = '\0';
    (void)fclose(f);
    for (size_t i = 0; i < doctor_probe_count; i++) {
        (void)snprintf(row, sizeof(row), "| `%s` | %s |\n", doctor_probes[i].name, doctor_probes[i].what);
        if (strstr(page, row) == NULL)
            fail_msg("not on the page: %s", row);
    }
}

static void test_doctor__complains_of_missing_replicas(void **state)
{
    (void)state;
    const struct cli_result *r = alone(fixture.node_list, NULL, "add_acks = 1\n", "");
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
    for (unsigned spent = 0; !in_step && spent < DOCTORING_WAIT_MS; spent += 100) {
        clock_sleep_us(100 * 1000);
        in_step = strstr(alone(fixture.node_list, NULL, "add_acks = 1\n", "")->text,
                         "1 replicas in step, 1 needed") != NULL;
    }
    assert_true(in_step);
    ask_redis("CONFIG SET repl-backlog-size 16384");
    says(by_command(""), "warning", "replication", "repl-backlog-size is 16384 bytes",
         "CONFIG SET repl-backlog-size 64mb");
    ask_redis("CONFIG SET repl-backlog-size 1mb");
    says(by_command(""), "ok", "replication", "repl-backlog-size 1048576 bytes", NULL);
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
    const struct cli_result *r = alone(fixture.node_list, fixture.postgres.dsn, "", WITH_TABLE(""));
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

static void test_doctor__complains_of_a_standby_of_another_server(void **state)
{
    (void)state;
    struct temp_postgres stranger;
    struct error e = {""};
    char postgres[160];
    must(temp_postgres_start(&stranger, NULL, &e), e);
    (void)snprintf(postgres, sizeof(postgres), "read_dsn = %s\n", stranger.dsn);
    struct daemon_options o = {.nodes = fixture.node_list,
                               .dsn = fixture.postgres.dsn,
                               .filters = WITH_TABLE(""),
                               .postgres = postgres};
    says(alone_by(&o), "problem", "standby",
         "read_dsn leads to no standby of dsn's server: ", "check [postgres] read_dsn");
    (void)snprintf(postgres, sizeof(postgres), "read_dsn = %s\n", fixture.postgres.dsn);
    says(alone_by(&o), "ok", "standby", "it answers", NULL); /* the primary itself will do */
    temp_postgres_fini(&stranger);
}

static void test_doctor__complains_of_a_node_that_is_away(void **state)
{
    (void)state;
    char nodes[sizeof(fixture.node_list) + 32];
    (void)snprintf(nodes, sizeof(nodes), "%s, redis://127.0.0.1:1", fixture.node_list);
    const struct cli_result *r = alone(nodes, NULL, "", "");
    says(r, "problem", "redis", "127.0.0.1:1: ", "check its address");
    says(r, "ok", "memory", "", NULL); /* the other node's memory */
    assert_int_equal(r->code, 1);
}

static void test_doctor__tells_a_refused_login_from_a_node_that_is_away(void **state)
{
    (void)state;
    char nodes[64];
    (void)snprintf(nodes, sizeof(nodes), "redis://me:wrong@127.0.0.1:%u", (unsigned)fixture.redis[0].port);
    says(alone(nodes, NULL, "", ""), "problem", "redis", "WRONGPASS", "check the login in [redis]: redis://");
}

static void test_doctor__complains_of_certificates(void **state)
{
    (void)state;
    struct error e = {""};
    char directory[PATH_MAX], service[3 * PATH_MAX];
    must(process_make_directory(directory, "doctor", &e), e);
    must(certificates_make(directory, &e), e);
    struct daemon_options o = {.nodes = fixture.node_list, .service = service};
    (void)snprintf(service, sizeof(service), "tls_cert = %s/expired.crt\ntls_key = %s/expired.key\n",
                   directory, directory);
    says(alone_by(&o), "problem", "certificates", "expired.crt: it expired 1 day ago",
         "renew it, then send SIGHUP");
    (void)snprintf(service, sizeof(service), "tls_cert = %s/redis.crt\ntls_key = %s/redis.key\n", directory,
                   directory);
    says(alone_by(&o), "warning", "certificates", "redis.crt: it is valid for ",
         "renew it, then send SIGHUP");
    process_remove_directory(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doctor__complains_of_nothing_where_all_is_well),
        cmocka_unit_test(test_doctor__prints_json),
        cmocka_unit_test(test_doctor__complains_of_eviction),
        cmocka_unit_test(test_doctor__complains_of_full_memory),
        cmocka_unit_test(test_doctor__complains_of_data_that_a_restart_loses),
        cmocka_unit_test(test_doctor__complains_of_a_snapshot_that_failed),
        cmocka_unit_test(test_doctor__complains_of_commands_that_are_renamed),
        cmocka_unit_test(test_doctor__complains_of_commands_that_are_not_allowed),
        cmocka_unit_test(test_doctor__tries_every_command),
        cmocka_unit_test(test_doctor__tries_what_the_page_of_rights_names),
        cmocka_unit_test(test_doctor__is_described_by_the_page_on_installing),
        cmocka_unit_test(test_doctor__complains_of_certificates),
        cmocka_unit_test(test_doctor__complains_of_missing_replicas),
        cmocka_unit_test(test_doctor__complains_of_a_replica_for_a_node),
        cmocka_unit_test(test_doctor__complains_of_clocks_that_differ),
        cmocka_unit_test(test_doctor__complains_of_a_standby_that_is_away),
        cmocka_unit_test(test_doctor__complains_of_a_standby_of_another_server),
        cmocka_unit_test(test_doctor__complains_of_a_node_that_is_away),
        cmocka_unit_test(test_doctor__tells_a_refused_login_from_a_node_that_is_away),
    };
    return cmocka_run_group_tests(tests, doctoring_start, doctoring_stop);
}
