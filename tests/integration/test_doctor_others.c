/* SPDX-License-Identifier: MIT */
/* The doctor reports each fault of the database, and of coordinators that work together, in its line, with a
 * remedy. */
#include "tests/integration/doctoring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/filter/view.h"

/* --- those who work together --- */

static void test_doctor__complains_of_other_nodes(void **state)
{
    (void)state;
    redisReply *r = client_command(&redis, "GET twinbloom:nodes");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    ask_redis("SET twinbloom:nodes 10.9.8.7:6379");
    is_problem("nodes", "\"10.9.8.7:6379\" for those who keep filters", "the same for all coordinators");
    struct error e = {""};
    must(client_ok(&redis, &e, "SET twinbloom:nodes %s,10.9.8.7:6379", r->str), e);
    says(by_command(""), "warning", "nodes", "other coordinators had more nodes: ", "add the node here");
    must(client_ok(&redis, &e, "SET twinbloom:nodes %s", r->str), e);
    freeReplyObject(r);
}

/* A coordinator's record that the test writes. */
struct posed {
    const char *nodes, *version, *redis, *postgres;
    unsigned format, silent_ms; /* time since the coordinator last wrote it */
};

static void pose(struct posed p)
{
    enum { KEEP_MS = 3600000 };
    static const char key[] = "twinbloom:{twinbloom:coordinators}:posed";
    struct error e = {""};
    int64_t n;
    must(client_integer(
             &redis, &n, &e,
             "HSET %s host h version %s format %u state serving nodes %s redis %s postgres %s keep_ms %d",
             key, p.version, p.format, p.nodes, p.redis, p.postgres, KEEP_MS),
         e);
    must(client_integer(&redis, &n, &e, "PEXPIRE %s %d", key, KEEP_MS - (int)p.silent_ms), e);
    must(client_integer(&redis, &n, &e, "SADD twinbloom:coordinators posed"), e);
}

static void test_doctor__complains_of_coordinators_that_disagree(void **state)
{
    (void)state;
    char own[64];
    (void)snprintf(own, sizeof(own), "127.0.0.1:%u", fixture.redis[0].port);
    const struct posed well = {own, TWINBLOOM_VERSION, "ok", "ok", VIEW_FORMAT, 0};
    struct posed p = well;
    p.nodes = "10.9.8.7:6379";
    pose(p);
    is_problem("coordinators",
               "posed: its nodes are 10.9.8.7:6379; here they are 127.0.0.1:", "the same [redis] nodes");
    p = well;
    p.version = "9.9.9";
    pose(p);
    says(by_command(""), "warning", "coordinators", "posed: its version is 9.9.9", "upgrade");
    p = well;
    p.format = VIEW_FORMAT - 1;
    pose(p);
    says(by_command(""), "warning", "coordinators", "posed: it knows filters up to format", "upgrade");
    p = well;
    p.redis = "10.9.8.7:6379_is_away";
    pose(p);
    says(by_command(""), "warning", "coordinators",
         "posed: it does not reach all of Redis: 10.9.8.7:6379_is_away", "reaches these nodes");
    p = well;
    p.postgres = "refused";
    pose(p);
    says(by_command(""), "warning", "coordinators", "posed: it cannot use Postgres: refused",
         "reaches the database");
    p = well;
    p.silent_ms = 60000;
    pose(p);
    const struct cli_result *r = by_command("");
    says(r, "warning", "coordinators", "posed: it ended without saying so, 6",
         "start it again"); /* 60 s ago, or a little more */
    assert_int_equal(r->code, 0);
    p = well;
    p.postgres = "none";
    pose(p);
    says(by_command(""), "ok", "coordinators", "2, which agree", NULL);
    struct error e = {""};
    int64_t n;
    must(client_integer(&redis, &n, &e, "SREM twinbloom:coordinators posed"), e);
}

/* --- Postgres --- */

/* The DSN of the role @role. */
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
    const struct cli_result *r = alone(fixture.node_list, dsn_of("poor"), "", WITH_TABLE(""));
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
    const struct cli_result *r =
        alone(fixture.node_list, "host=127.0.0.1 port=1 dbname=postgres", "", WITH_TABLE(""));
    says(r, "problem", "postgres", "", "check [postgres] dsn");
    assert_null(strstr(r->text, " table "));
    assert_int_equal(r->code, 1);
}

static void test_doctor__complains_of_a_spill_dir_that_cannot_be_used(void **state)
{
    (void)state;
    const struct cli_result *r = alone_by(&(struct daemon_options){.nodes = fixture.node_list,
                                                                   .dsn = fixture.postgres.dsn,
                                                                   .expansion = "spill_dir = /not/there\n",
                                                                   .filters = WITH_TABLE("")});
    says(r, "warning", "spill", "spill_dir /not/there: No such file or directory", "set spill_dir");
    assert_int_equal(r->code, 0);
}

static void test_doctor__complains_of_long_transactions(void **state)
{
    (void)state;
    PGconn *other = PQconnectdb(fixture.postgres.dsn);
    assert_int_equal(PQstatus(other), CONNECTION_OK);
    fixture_sql(other, "BEGIN; CREATE TABLE prepared (n int); PREPARE TRANSACTION 'left'");
    const struct cli_result *r = by_command("");
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

/* Note a slot as a coordinator does. */
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

/* Have Postgres invalidate the slots, whose WAL nobody has read. */
static void give_slots_up(void)
{
    fixture_sql(fixture.db, "ALTER SYSTEM SET max_slot_wal_keep_size = 0");
    fixture_sql(fixture.db, "SELECT pg_reload_conf()");
    for (int i = 0; i < 4; i++) {
        fixture_sql(fixture.db, "SELECT pg_logical_emit_message(false, 'test', 'more')");
        fixture_sql(fixture.db, "SELECT pg_switch_wal()");
        fixture_sql(fixture.db, "CHECKPOINT");
    }
}

#define BY_TEXT(follow)                                                                                      \
    "[filter links]\ncapacity = 4000\nerror_rate = 0.01\ntable = texts\nid_column = code\nkey = code\n"      \
    "follow = " follow "\n"

static void test_doctor__says_how_tables_are_followed(void **state)
{
    (void)state;
    static const char probe[] = "follower";
    const char *dsn = fixture.postgres.dsn;
    const struct cli_result *r = alone(fixture.node_list, dsn, "", WITH_TABLE(""));
    all_is_well(r);
    says(r, "ok", probe, "links: by ids\n", NULL);
    r = alone(fixture.node_list, dsn, "", WITH_TABLE("follow = no\n"));
    all_is_well(r);
    says(r, "ok", probe, "links: by ids, during rebuilds only\n", NULL);
    fixture_sql(fixture.db, "CREATE TABLE texts (code text PRIMARY KEY)");
    r = alone(fixture.node_list, dsn, "", BY_TEXT("yes"));
    says(r, "warning", probe, "links: rows that plain SQL writes wait for the next rebuild",
         "set follow_by = outbox or logical, or follow = no");
    assert_int_equal(r->code, 0);
    r = alone(fixture.node_list, dsn, "", BY_TEXT("no"));
    says(r, "ok", probe, "links: by ids, during rebuilds only\n", NULL);
    r = alone(fixture.node_list, dsn, "", WITH_TABLE("follow_by = outbox\noutbox = box\n"));
    says(r, "problem", probe, "links: outbox box: there is no such table", "");
    assert_int_equal(r->code, 1);
    fixture_sql(fixture.db, "DROP TABLE texts");
}

/* The last test, as it restarts the server. */
static void test_doctor__complains_of_logical_replication(void **state)
{
    (void)state;
    fixture_sql(fixture.db,
                "CREATE PUBLICATION links FOR TABLE short_link WITH (publish = 'insert, update')");
    says(alone(fixture.node_list, fixture.postgres.dsn, "", LOGICAL), "problem", "follower",
         "links: wal_level is not logical", "ALTER SYSTEM SET wal_level = logical");
    fixture_sql(fixture.db, "ALTER SYSTEM SET max_replication_slots = 2");
    restart_postgres("ALTER SYSTEM SET wal_level = logical");
    says(alone(fixture.node_list, dsn_of("poor"), "", LOGICAL), "problem", "follower",
         "role poor may not replicate", "ALTER ROLE poor REPLICATION");
    const struct cli_result *r = alone(fixture.node_list, fixture.postgres.dsn, "", LOGICAL);
    all_is_well(r);
    says(r, "ok", "follower", "by logical replication", NULL);
    fixture_sql(fixture.db, "SELECT pg_create_logical_replication_slot('twinbloom_links', 'pgoutput'), "
                            "pg_create_logical_replication_slot('forgotten', 'pgoutput')");
    note_slot("twinbloom_links");
    note_slot("forgotten");
    r = alone(fixture.node_list, fixture.postgres.dsn, "", LOGICAL);
    says(r, "ok", "slots", "twinbloom_links: not in use now", NULL);
    says(r, "warning", "slots", "forgotten: no filter of this configuration uses it", "slot_grace");
    says(r, "warning", "slots", "all 2 replication slots of the server are taken", "max_replication_slots");
    give_slots_up();
    r = alone(fixture.node_list, fixture.postgres.dsn, "", LOGICAL);
    says(r, "problem", "slots", "twinbloom_links: Postgres has given it up", "raise max_slot_wal_keep_size");
    fixture_sql(fixture.db,
                "SELECT pg_drop_replication_slot('twinbloom_links'), pg_drop_replication_slot('forgotten')");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doctor__complains_of_other_nodes),
        cmocka_unit_test(test_doctor__complains_of_coordinators_that_disagree),
        cmocka_unit_test(test_doctor__complains_of_missing_rights),
        cmocka_unit_test(test_doctor__complains_of_a_table_that_does_not_fit),
        cmocka_unit_test(test_doctor__complains_of_a_database_that_is_away),
        cmocka_unit_test(test_doctor__complains_of_a_spill_dir_that_cannot_be_used),
        cmocka_unit_test(test_doctor__complains_of_long_transactions),
        cmocka_unit_test(test_doctor__says_how_tables_are_followed),
        cmocka_unit_test(test_doctor__complains_of_logical_replication),
    };
    return cmocka_run_group_tests(tests, doctoring_start, doctoring_stop);
}
