/* SPDX-License-Identifier: MIT */
/* Findings of the doctor for faults that a test cannot cause on real servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "service/doctor/doctor_internal.h"

#define HEALTHY_REDIS "redis_version:7.2.4\r\nrole:master\r\nmaster_replid:" ID "\r\nmaster_repl_offset:1\r\n"
#define ID "0123456789abcdef0123456789abcdef01234567"
#define REPLICA "connected_slaves:1\r\nslave0:ip=127.0.0.1,port=1,state=online,offset=1,lag=0\r\n"

/* --- one finding --- */

struct look {
    struct config config;
    struct nodes nodes;
    struct doctor_options options;
    struct doctor_node node;
    redisReply info;
    struct doctor doctor;
    unsigned count;
    enum doctor_state state;
    char text[1024]; /* the last finding as "subject: found -> remedy" */
};

static void take(void *arg, const struct doctor_finding *f)
{
    struct look *l = arg;
    l->count++;
    l->state = f->state;
    (void)snprintf(l->text, sizeof(l->text), "%s: %s -> %s", f->subject, f->found, f->remedy);
}

static struct look *begin(const char *info)
{
    static struct look l;
    memset(&l, 0, sizeof(l));
    l.nodes.count = 1;
    (void)snprintf(l.node.name, sizeof(l.node.name), "node");
    l.config.slot_wal_max = 1000;
    l.options = (struct doctor_options){.config = &l.config, .nodes = &l.nodes, .fn = take, .arg = &l};
    l.info = (redisReply){.type = REDIS_REPLY_STRING, .str = (char *)(uintptr_t)info, .len = strlen(info)};
    l.node.info = &l.info;
    l.doctor = (struct doctor){
        .o = &l.options, .probe = "probe", .node = &l.node, .node_count = 1, .has_postgres = true};
    return &l;
}

/* Expect exactly one finding, with @state, @found and @remedy. */
static void said(const struct look *l, enum doctor_state state, const char *found, const char *remedy)
{
    const char *arrow = strstr(l->text, " -> ");
    if (l->count != 1 || l->state != state || strstr(l->text, found) == NULL || strstr(arrow, remedy) == NULL)
        fail_msg("no %s of \"%s\" with \"%s\"; the last of %u is a %s: %s", doctor_state_name(state), found,
                 remedy, l->count, doctor_state_name(l->state), l->text);
}

static void judges(doctor_node_fn *fn, const char *info, enum doctor_state state, const char *found,
                   const char *remedy)
{
    struct look *l = begin(info);
    fn(&l->doctor, &l->node);
    said(l, state, found, remedy);
}

/* --- Redis --- */

static void test_doctor__knows_old_versions(void **state)
{
    (void)state;
    judges(doctor_versions, "redis_version:6.0.16\r\n", DOCTOR_PROBLEM,
           "node: Redis 6.0.16 is older than 6.2", "upgrade it to Redis 7.0");
    judges(doctor_versions, "redis_version:6.2.14\r\n", DOCTOR_WARNING,
           "Redis 6.2.14: when its first replica comes", "upgrade it to Redis 7.0");
    judges(doctor_versions, "redis_version:7.0.0\r\n", DOCTOR_OK, "node: Redis 7.0.0", "");
    judges(doctor_versions, "redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n", DOCTOR_OK, "Valkey 8.0.1", "");
    judges(doctor_versions, "", DOCTOR_PROBLEM, "is older than 6.2", "upgrade");
}

static void test_doctor__says_how_full_a_node_is(void **state)
{
    (void)state;
#define MEMORY "maxmemory_policy:noeviction\r\nmaxmemory:1000\r\nused_memory:"
    judges(doctor_memory, MEMORY "900\r\n", DOCTOR_OK, "noeviction, 900 of 1000 bytes", "");
    judges(doctor_memory, MEMORY "901\r\n", DOCTOR_WARNING, "901 of 1000 bytes (maxmemory) are used",
           "raise maxmemory");
    judges(doctor_memory, MEMORY "999\r\n", DOCTOR_WARNING, "999 of 1000 bytes", "add a node");
    judges(doctor_memory, MEMORY "1000\r\n", DOCTOR_PROBLEM, "memory is full (1000 of 1000 bytes)",
           "raise maxmemory");
    judges(doctor_memory, "maxmemory_policy:noeviction\r\nmaxmemory:0\r\nused_memory:5\r\n", DOCTOR_OK,
           "maxmemory is not set, 5 bytes", "");
}

static void test_doctor__tells_each_write_that_failed(void **state)
{
    (void)state;
    static const char *const writes[] = {"aof_last_write_status", "aof_last_bgrewrite_status",
                                         "rdb_last_bgsave_status"};
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        char info[128], found[64];
        (void)snprintf(info, sizeof(info), "aof_enabled:1\r\n%s:err\r\n", writes[i]);
        (void)snprintf(found, sizeof(found), "node: %s is err", writes[i]);
        judges(doctor_persistence, info, DOCTOR_PROBLEM, found, "space on its disk");
        (void)snprintf(info, sizeof(info), "aof_enabled:1\r\n%s:ok\r\n", writes[i]);
        judges(doctor_persistence, info, DOCTOR_OK, "appendonly yes", "");
    }
    judges(doctor_persistence, "aof_enabled:0\r\nconnected_slaves:1\r\n", DOCTOR_OK, "but replicas", "");
}

static void test_doctor__compares_replicas_with_what_adds_wait_for(void **state)
{
    (void)state;
    struct look *l = begin(HEALTHY_REDIS REPLICA);
    l->config.add_acks = 2;
    doctor_replicas(&l->doctor, &l->node);
    said(l, DOCTOR_PROBLEM, "add_acks = 2, but 1 replicas are in step", "add replicas");

    l = begin("redis_version:7.0.15\r\nrole:master\r\nmaster_replid:" ID "\r\nmaster_repl_offset:1\r\n");
    l->config.add_fsync = true;
    doctor_replicas(&l->doctor, &l->node);
    said(l, DOCTOR_PROBLEM, "needs WAITAOF", "upgrade it to Redis 7.2");

    l = begin(HEALTHY_REDIS "aof_enabled:0\r\n");
    l->config.add_fsync = true;
    doctor_replicas(&l->doctor, &l->node);
    said(l, DOCTOR_PROBLEM, "add_fsync = yes needs appendonly yes", "appendonly yes");

    l = begin(HEALTHY_REDIS "aof_enabled:1\r\n" REPLICA);
    l->config.add_fsync = true;
    l->config.add_acks = 1;
    doctor_replicas(&l->doctor, &l->node);
    said(l, DOCTOR_OK, "1 replicas in step, 1 needed", "");
}

static void test_doctor__wants_masters_of_sentinels_to_stop_when_cut_off(void **state)
{
    (void)state;
    static char sentinels; /* only its address is used */
    struct look *l = begin(HEALTHY_REDIS);
    l->nodes.sentinels = (struct sentinels *)(void *)&sentinels;
    doctor_replicas(&l->doctor, &l->node);
    said(l, DOCTOR_WARNING, "min-replicas-to-write is 0", "CONFIG SET min-replicas-to-write 1");
    l = begin(HEALTHY_REDIS "min_slaves_good_slaves:0\r\n");
    l->nodes.sentinels = (struct sentinels *)(void *)&sentinels;
    doctor_replicas(&l->doctor, &l->node);
    said(l, DOCTOR_OK, "0 replicas in step", "");
}

static void test_doctor__wants_a_backlog_where_there_are_replicas(void **state)
{
    (void)state;
    judges(doctor_replication, HEALTHY_REDIS REPLICA "repl_backlog_size:1048575\r\n", DOCTOR_WARNING,
           "repl-backlog-size is 1048575 bytes", "CONFIG SET repl-backlog-size 64mb");
    judges(doctor_replication, HEALTHY_REDIS REPLICA "repl_backlog_size:1048576\r\n", DOCTOR_OK,
           "replication id 0123456789abcdef..., repl-backlog-size 1048576 bytes", "");
    judges(doctor_replication, HEALTHY_REDIS "repl_backlog_size:16384\r\n", DOCTOR_OK, "16384", "");
}

/* --- Postgres --- */

static void judges_server(doctor_fn *fn, const struct server_facts *facts, enum doctor_state state,
                          const char *found, const char *remedy)
{
    struct look *l = begin("");
    l->doctor.postgres = *facts;
    fn(&l->doctor);
    said(l, state, found, remedy);
}

static void test_doctor__knows_servers_of_postgres(void **state)
{
    (void)state;
    judges_server(doctor_server, &(struct server_facts){.version = 120017, .version_text = "12.17"},
                  DOCTOR_WARNING, "Postgres 12.17 is not tested", "upgrade it to Postgres 15");
    judges_server(doctor_server, &(struct server_facts){.version = 130000, .version_text = "13.0"}, DOCTOR_OK,
                  "Postgres 13.0", "");
    judges_server(doctor_server,
                  &(struct server_facts){.version = 150004, .version_text = "15.4", .standby = true},
                  DOCTOR_PROBLEM, "Postgres 15.4 is a standby", "connect to the primary");
}

static void test_doctor__tells_transactions_that_are_open_for_long(void **state)
{
    (void)state;
    judges_server(doctor_transactions, &(struct server_facts){.oldest_seconds = 600}, DOCTOR_OK, "none", "");
    judges_server(doctor_transactions, &(struct server_facts){.oldest_seconds = 601, .prepared = 1},
                  DOCTOR_WARNING, "open for 601 s", "pg_stat_activity");
}

static void judges_slot(const struct stream_slot *slot, enum doctor_state state, const char *found,
                        const char *remedy)
{
    struct look *l = begin("");
    l->config.filter[0] = (struct config_filter){
        .name = "links", .table = "links", .slot = "slot", .follow_by = FOLLOW_BY_LOGICAL};
    l->config.filter_count = 1;
    doctor_slot(&l->doctor, "slot", slot);
    said(l, state, found, remedy);
}

static void test_doctor__judges_replication_slots(void **state)
{
    (void)state;
    judges_slot(&(struct stream_slot){.exists = true, .is_ours = true, .lost = true, .retained = 900},
                DOCTOR_PROBLEM, "slot: Postgres has given it up", "raise max_slot_wal_keep_size");
    judges_slot(&(struct stream_slot){.exists = true, .is_ours = true, .retained = 501}, DOCTOR_WARNING,
                "keeps 501 bytes of log for it; at 1000 it is dropped", "whether a coordinator follows");
    judges_slot(&(struct stream_slot){.exists = true, .is_ours = true, .active = true, .retained = 500},
                DOCTOR_OK, "in use, Postgres keeps 500 bytes", "");
    struct look *l = begin("");
    doctor_slot(&l->doctor, "other", &(struct stream_slot){.exists = true, .is_ours = true, .retained = 900});
    said(l, DOCTOR_WARNING, "other: no filter of this configuration uses it",
         "pg_drop_replication_slot('other')");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doctor__knows_old_versions),
        cmocka_unit_test(test_doctor__says_how_full_a_node_is),
        cmocka_unit_test(test_doctor__tells_each_write_that_failed),
        cmocka_unit_test(test_doctor__compares_replicas_with_what_adds_wait_for),
        cmocka_unit_test(test_doctor__wants_masters_of_sentinels_to_stop_when_cut_off),
        cmocka_unit_test(test_doctor__wants_a_backlog_where_there_are_replicas),
        cmocka_unit_test(test_doctor__knows_servers_of_postgres),
        cmocka_unit_test(test_doctor__tells_transactions_that_are_open_for_long),
        cmocka_unit_test(test_doctor__judges_replication_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
