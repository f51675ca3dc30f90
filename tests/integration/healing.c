/* SPDX-License-Identifier: MIT */
#include "tests/integration/healing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shard/filter/slots.h"

const char healing_gate[] =
    "CREATE FUNCTION public.gate(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
    "IF id = 1 THEN PERFORM pg_advisory_lock_shared(7); PERFORM pg_advisory_unlock_shared(7); END IF; "
    "IF id = 15000 THEN PERFORM pg_advisory_lock_shared(8); PERFORM pg_advisory_unlock_shared(8); END IF; "
    "RETURN true; END $$";

void healing_shut(struct fixture *f, int which)
{
    char sql[64];
    (void)snprintf(sql, sizeof(sql), "SELECT pg_advisory_lock(%d)", which);
    fixture_sql(f->db, sql);
}

void healing_open(struct fixture *f, int which)
{
    char sql[64];
    (void)snprintf(sql, sizeof(sql), "SELECT pg_advisory_unlock(%d)", which);
    fixture_sql(f->db, sql);
}

unsigned healing_other(struct fixture *f, unsigned n)
{
    unsigned alive = 0;
    while (f->cluster.node[alive].process.pid == 0)
        alive++;
    unsigned home = temp_cluster_owner(&f->cluster, alive, slots_of_key(FILTER, strlen(FILTER)));
    return (home + 1 + n) % 3;
}

void healing_cut_off(struct fixture *f, unsigned i)
{
    struct error e = {""};
    must(temp_cluster_cut_off(&f->cluster, i, HEALING_WAIT_MS, &e), e);
}

unsigned healing_fail_over(struct fixture *f, unsigned i)
{
    struct error e = {""};
    unsigned heir = 0;
    temp_redis_kill(&f->cluster.node[i]);
    must(temp_cluster_failed_over(&f->cluster, i, HEALING_WAIT_MS, &heir, &e), e);
    return heir;
}

void healing_insert_and_add(struct fixture *f, unsigned d, uint64_t first, uint64_t count, uint64_t each)
{
    struct error e = {""};
    for (uint64_t done = 0; done < count; done += each) {
        fixture_sql(f->db, "BEGIN");
        fixture_insert(f->db, first + done, each);
        must(client_madd(&f->client[d], FILTER, fixture_code, first + done, each, &e), e);
        fixture_sql(f->db, "COMMIT");
    }
}

int64_t healing_number(struct fixture *f, unsigned d, const char *field)
{
    struct error e = {""};
    int64_t value = 0;
    must(client_status_number(&f->client[d], FILTER, field, &value, &e), e);
    return value;
}

void healing_is(struct fixture *f, unsigned d, const char *field, const char *wanted)
{
    struct error e = {""};
    char text[256];
    must(client_status(&f->client[d], FILTER, field, text, sizeof(text), &e), e);
    assert_string_equal(text, wanted);
}

void healing_is_resident(struct fixture *f, unsigned d)
{
    struct error e = {""};
    char shards[32];
    fixture_all_present(f, d, 0, 1); /* a request has the coordinator load its shards */
    must(client_status(&f->client[d], FILTER, "shards", shards, sizeof(shards), &e), e);
    must(client_wait_status(&f->client[d], FILTER, "resident_shards", shards, HEALING_WAIT_MS, &e), e);
}

/* No code that gets an answer may be absent. Requests without an answer are ignored. */
static void none_is_absent(struct fixture *f, unsigned d, uint64_t count)
{
    enum { STEP = 97 };
    if (f->client[d].redis == NULL || f->client[d].redis->err != 0)
        fixture_reconnect(f, d);
    for (uint64_t i = f->client[d].redis == NULL ? count : clock_mono_us() % STEP; i < count; i += STEP) {
        char code[CLIENT_KEY_MAX];
        (void)fixture_code(i, code);
        redisReply *r = client_command(&f->client[d], "BF.EXISTS " FILTER " %s", code);
        if (r != NULL && r->type == REDIS_REPLY_INTEGER && r->integer == 0)
            fail_msg("coordinator %u says no to code %" PRIu64, d, i);
        freeReplyObject(r);
        if (r == NULL)
            return;
    }
}

/* Whether codes that were never added are reported absent. */
static bool is_exact(struct fixture *f, unsigned d)
{
    enum { ASKED = 1000, MOST = 20 };
    struct error e = {""};
    uint64_t present = 0;
    return client_mexists(&f->client[d], FILTER, fixture_absent_code, 0, ASKED, &present, NULL, &e) ==
               ERR_OK &&
           present <= MOST;
}

void healing_await(struct fixture *f, unsigned d, uint64_t count)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + HEALING_WAIT_MS * 1000ull;
    for (;;) {
        char degraded[16] = "";
        none_is_absent(f, d, count);
        if (client_status(&f->client[d], FILTER, "degraded", degraded, sizeof(degraded), &e) == ERR_OK &&
            strcmp(degraded, "0") == 0 && is_exact(f, d))
            return;
        if (clock_mono_us() > until)
            must(client_wait_status(&f->client[d], FILTER, "degraded", "healed in time", 1, &e), e);
        clock_sleep_us(20000);
    }
}

void healing_is_whole(struct fixture *f, uint64_t count)
{
    for (unsigned d = 0; d < f->daemons; d++) {
        if (!process_running(&f->daemon[d].process))
            continue;
        healing_await(f, d, count);
        fixture_all_present(f, d, 0, count);
        assert_in_range(fixture_false_positives(f, d, 10000), 0, 60);
    }
}

/* Read the part of the node's replication id that a view stores. */
static void read_id(struct client *c, char out[17])
{
    static const char field[] = "master_replid:";
    redisReply *info = client_command(c, "INFO replication");
    const char *at = info == NULL || info->str == NULL ? NULL : strstr(info->str, field);
    (void)snprintf(out, 17, "%s", at == NULL ? "none" : at + strlen(field));
    freeReplyObject(info);
}

void healing_accepts(uint16_t home, uint16_t port)
{
    char id[17];
    bool accepted = false;
    struct error e = {""};
    struct client view = {0}, node = {0};
    uint64_t until = clock_mono_us() + HEALING_WAIT_MS * 1000ull;
    must(client_open(&view, home, HEALING_WAIT_MS, &e), e);
    must(client_open(&node, port, HEALING_WAIT_MS, &e), e);
    while (!accepted) {
        read_id(&node, id);
        redisReply *eras = client_command(&view, "HGET twinbloom:{" FILTER "}:view eras");
        accepted = eras != NULL && eras->type == REDIS_REPLY_STRING && strstr(eras->str, id) != NULL;
        freeReplyObject(eras);
        if (!accepted && clock_mono_us() > until)
            fail_msg("the view does not accept the node whose replication id begins with %s", id);
        clock_sleep_us(20000);
    }
    client_close(&view);
    client_close(&node);
}

void healing_is_accepted(struct fixture *f, unsigned i)
{
    unsigned home = temp_cluster_owner(&f->cluster, i, slots_of_key(FILTER, strlen(FILTER)));
    healing_accepts(f->cluster.node[home].port, f->cluster.node[i].port);
}

void healing_start_again(struct fixture *f, unsigned d)
{
    struct error e = {""};
    if (process_running(&f->daemon[d].process))
        daemon_kill(&f->daemon[d]);
    must(daemon_launch(&f->daemon[d], &e), e);
    fixture_reconnect(f, d);
}
