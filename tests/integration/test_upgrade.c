/* SPDX-License-Identifier: MIT */
/* A rolling upgrade: three coordinators are replaced by another version, one after the other, during adds,
 * checks and an expansion. Clients of the leaving coordinator switch to another one; they only see
 * connections that close. */
#include "tests/integration/roll.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 60000, WAIT_MS = 60000, CREATORS = 2, KEYS_MAX = 200000, REPLY_MS = 20000 };

static struct fixture fixture;

/* A gate that stops the scan while somebody holds an advisory lock. */
static const char gate[] =
    "CREATE FUNCTION public.gate(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
    "IF id = 30000 THEN PERFORM pg_advisory_lock_shared(7); "
    "PERFORM pg_advisory_unlock_shared(7); END IF; RETURN true; END $$";

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 3,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 100000,
                                               .rate = "0.001",
                                               .service = "shutdown_delay = 1s\n",
                                               .expansion = "lease = 10m\npage_rows = 500\n",
                                               .schema = gate,
                                               .where = "public.gate(id)"};

/* --- traffic --- */

static atomic_bool stop;

struct creator {
    unsigned number, at; /* at: the coordinator it is connected to */
    PGconn *db;
    struct client client;
    bool connected;
    uint64_t made; /* keys that were acknowledged: 0 .. made - 1 */
    uint64_t checked, moves;
    char failure[512]; /* "": none */
    pthread_t thread;
};

static struct creator creators[CREATORS];

static size_t key_of(const struct creator *c, uint64_t n, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "t%u-%llu", c->number, (unsigned long long)n);
}

static void connect_somewhere(struct creator *c)
{
    struct error e;
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    client_close(&c->client);
    c->connected = false;
    while (!c->connected && clock_mono_us() < until) {
        c->at = (c->at + 1) % 3;
        c->connected = client_open(&c->client, fixture.daemon[c->at].port, REPLY_MS, &e) == ERR_OK;
        if (!c->connected)
            clock_sleep_us(5000);
    }
    c->moves++;
    if (!c->connected)
        (void)snprintf(c->failure, sizeof(c->failure), "no coordinator could be reached");
}

/* Send the command again to another coordinator if the connection closed, which is the only allowed
 * failure. */
static long long ask(struct creator *c, const char *command, const char *key)
{
    while (c->failure[0] == '\0') {
        redisReply *r = client_command(&c->client, "%s " FILTER " %s", command, key);
        if (r == NULL) {
            connect_somewhere(c);
            continue;
        }
        long long answer = r->type == REDIS_REPLY_INTEGER ? r->integer : -1;
        if (answer < 0)
            (void)snprintf(c->failure, sizeof(c->failure), "%s %s: %s", command, key,
                           r->str != NULL ? r->str : "?");
        freeReplyObject(r);
        return answer;
    }
    return -1;
}

static void create(struct creator *c)
{
    char key[CLIENT_KEY_MAX], sql[256];
    (void)key_of(c, c->made, key);
    (void)snprintf(sql, sizeof(sql), "INSERT INTO short_link (code, url) VALUES ('%s', 'x')", key);
    PGresult *r = PQexec(c->db, sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        (void)snprintf(c->failure, sizeof(c->failure), "%.400s", PQerrorMessage(c->db));
    PQclear(r);
    if (ask(c, "BF.ADD", key) >= 0)
        c->made++;
}

static void check(struct creator *c)
{
    char key[CLIENT_KEY_MAX];
    if (c->made == 0)
        return;
    (void)key_of(c, c->checked * 7919 % c->made, key);
    if (ask(c, "BF.EXISTS", key) == 0)
        (void)snprintf(c->failure, sizeof(c->failure), "key %s was acknowledged and is absent", key);
    c->checked++;
}

static void *run(void *arg)
{
    struct creator *c = arg;
    c->at = c->number;
    connect_somewhere(c);
    while (!atomic_load(&stop) && c->failure[0] == '\0' && c->made < KEYS_MAX) {
        create(c);
        for (unsigned i = 0; i < 10; i++)
            check(c);
    }
    client_close(&c->client);
    return NULL;
}

static void start_traffic(void)
{
    for (unsigned i = 0; i < CREATORS; i++) {
        creators[i] = (struct creator){.number = i, .db = PQconnectdb(fixture.postgres.dsn)};
        assert_int_equal(PQstatus(creators[i].db), CONNECTION_OK);
        assert_int_equal(pthread_create(&creators[i].thread, NULL, run, &creators[i]), 0);
    }
}

static void end_traffic(void)
{
    atomic_store(&stop, true);
    for (unsigned i = 0; i < CREATORS; i++) {
        (void)pthread_join(creators[i].thread, NULL);
        PQfinish(creators[i].db);
    }
}

/* --- the upgrade --- */

static void note_what_a_later_version_may_leave(void)
{
    struct client redis = {0};
    struct error e = {""};
    int64_t n;
    must(client_open(&redis, fixture.redis[0].port, REPLY_MS, &e), e);
    must(client_integer(&redis, &n, &e, "HSET twinbloom:{" FILTER "}:view later_1 x later_2 y"), e);
    must(client_integer(&redis, &n, &e, "HSET twinbloom:{" FILTER "}:job later_3 z"), e);
    client_close(&redis);
}

static void replace(unsigned d)
{
    struct error e = {""};
    unsigned other = (d + 1) % 3;
    client_close(&fixture.client[d]);
    process_signal(&fixture.daemon[d].process, SIGTERM);
    must(process_wait(&fixture.daemon[d].process, WAIT_MS, &e), e);
    assert_int_equal(process_exit_status(&fixture.daemon[d].process), 0);
    fixture.daemon[d].program = TWINBLOOMD_NEXT;
    must(daemon_launch(&fixture.daemon[d], &e), e);
    fixture_reconnect(&fixture, d);
    roll_wait(&fixture, other, d, NULL, "version", TWINBLOOM_VERSION_NEXT, WAIT_MS);
    roll_wait(&fixture, other, d, NULL, "state", "serving", WAIT_MS);
    clock_sleep_us(500000); /* some traffic comes to the new coordinator */
}

static void owner(unsigned by, char *out, size_t size)
{
    struct error e = {""};
    must(client_status(&fixture.client[by], FILTER, "job_owner", out, size, &e), e);
}

static void test_upgrade__goes_round_without_a_pause(void **state)
{
    (void)state;
    struct error e = {""};
    char old[64], first[256], last[256];
    int64_t before = fixture_generation(&fixture, 0);
    note_what_a_later_version_may_leave();
    roll_wait(&fixture, 0, 2, NULL, "state", "serving", WAIT_MS);
    (void)snprintf(old, sizeof(old), "%s", roll_field(&fixture, 0, 2, NULL, "version"));
    assert_string_not_equal(old, TWINBLOOM_VERSION_NEXT);
    start_traffic();
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 1, "job_step", "scan");
    owner(1, first, sizeof(first));
    for (unsigned d = 0; d < 3; d++) {
        replace(d);
        for (unsigned i = 0; i < 3; i++)
            assert_string_equal(roll_field(&fixture, d, i, NULL, "version"),
                                i <= d ? TWINBLOOM_VERSION_NEXT : old);
        fixture_wait(&fixture, d, "job_state", "running"); /* the job has a driver, however long the lease */
    }
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, WAIT_MS, &e), e);
    fixture_wait(&fixture, 0, "phase", "STEADY");
    fixture_wait(&fixture, 0, "job_state", "done");
    owner(0, last, sizeof(last));
    assert_string_not_equal(first, last);
    end_traffic();
    for (unsigned i = 0; i < CREATORS; i++) {
        const struct creator *c = &creators[i];
        if (c->failure[0] != '\0')
            fail_msg("creator %u: %s", i, c->failure);
        print_message("creator %u: %llu keys, %llu checks, connected %llu times\n", i,
                      (unsigned long long)c->made, (unsigned long long)c->checked,
                      (unsigned long long)c->moves);
        assert_true(c->made > 0 && c->checked > 0 && c->moves > 1);
    }
    for (unsigned d = 0; d < 3; d++) {
        fixture_all_present(&fixture, d, 0, ROWS);
        for (unsigned i = 0; i < CREATORS; i++)
            for (uint64_t n = 0; n < creators[i].made; n++) {
                char key[CLIENT_KEY_MAX];
                int64_t there;
                (void)key_of(&creators[i], n, key);
                must(client_integer(&fixture.client[d], &there, &e, "BF.EXISTS " FILTER " %s", key), e);
                if (there != 1)
                    fail_msg("%s was acknowledged and is absent", key);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_upgrade__goes_round_without_a_pause)};
    return fixture_run_tests(&fixture, &options, tests);
}
