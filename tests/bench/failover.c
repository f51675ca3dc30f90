/* SPDX-License-Identifier: MIT */
/* failover: how long Twinbloom is away when a master of its cluster dies, how long until keys that the
 * replica has missed are added again, and what is answered meanwhile. The benchmark starts three masters with
 * a replica each, Postgres, two coordinators, and callers without pause. A round loses a master in one way,
 * and waits until everything is as before. A round that reaches its deadline counts as missed. If a server
 * does not start, the run ends. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <libpq-fe.h>
#include "base/clock.h"
#include "base/number.h"
#include "bench.h"
#include "failover_load.h"
#include "tests/lib/daemon.h"
#include "tests/lib/temp_cluster.h"
#include "tests/lib/temp_postgres.h"

#define FILTER "short-link"

enum {
    PAIRS = 3,
    START_MS = 60000,
    ROUND_MS = 60000, /* the longest that a round waits for anything */
    LAG_US = 1000 * 1000,
    AFTERWARDS_US = 700 * 1000,
    REPLY_MS = 20000,
    STEADY_LOOKS = 10,
    VERIFY_STEP = 10,
    ROOM = 5000000,    /* for the added keys: no expansion starts by itself */
    STRANGERS = 20000, /* keys that were never added: after healing they are absent again */
    RUN_SECONDS = 480
};

static const double served_target = 2, healed_target = 30, stranger_target = 3; /* s, s, times the rate */
static const double error_rate = 0.001;

enum way { KILL, KILL_LAGGING, RESTART_EMPTY, FLUSH };

static const struct plan {
    const char *name;
    enum way way;
    bool home; /* the master that has the view */
} plans[] = {
    {"kill -9 of a master", KILL, false},
    {"kill -9 of a master", KILL, false},
    {"kill -9, its replica lags", KILL_LAGGING, false},
    {"kill -9, its replica lags", KILL_LAGGING, false},
    {"home: kill -9", KILL, true},
    {"home: kill -9, its replica lags", KILL_LAGGING, true},
    {"a master restarted empty", RESTART_EMPTY, false},
    {"FLUSHALL of a master", FLUSH, false},
    {"home: restarted empty", RESTART_EMPTY, true},
    {"home: FLUSHALL", FLUSH, true},
};
enum { PLANS = sizeof(plans) / sizeof(plans[0]) };

struct outcome {
    double failover, served, safe; /* seconds since the loss */
    uint64_t failed, absent_degraded, absent_after, asked, strangers;
    char by[16];
};

static struct {
    struct temp_cluster cluster;
    struct temp_postgres postgres;
    struct daemon daemon[2];
    struct client client[2];
    struct failover_load load;
} all;

/* --- nodes: i and i + PAIRS are master and replica of each other --- */

static unsigned other_of(unsigned node)
{
    return (node + PAIRS) % (2 * PAIRS);
}

/* Return the pair that holds @key's slot; PAIRS: unknown. */
static unsigned pair_of(const char *key)
{
    int64_t slot = 0;
    if (client_integer(&all.cluster.client[0], &slot, NULL, "CLUSTER KEYSLOT %s", key) != ERR_OK)
        return PAIRS;
    unsigned owner = temp_cluster_owner(&all.cluster, 0, (unsigned)slot);
    return owner == TEMP_CLUSTER_NODES_MAX ? PAIRS : owner % PAIRS;
}

/* Find a key of the benchmark's own whose slot the pair holds. */
static void find_key(unsigned pair, char out[24])
{
    for (unsigned n = 0; n < 1000; n++) {
        (void)snprintf(out, 24, "bench-failover-%u", n);
        if (pair_of(out) == pair)
            return;
    }
}

static enum err hold_replica_back(unsigned master, struct error *e)
{
    enum err code = temp_cluster_cut_off(&all.cluster, master, ROUND_MS, e);
    clock_sleep_us(LAG_US);
    return code;
}

/* Wait until the successor takes a command of the dead master's slots. *@seconds: how long that took. */
static enum err await_heir(unsigned heir, const char *key, uint64_t since, double *seconds, struct error *e)
{
    while (client_ok(&all.cluster.client[heir], e, "SET %s 1 PX 60000", key) != ERR_OK) {
        if (clock_mono_us() - since > ROUND_MS * 1000ull)
            return error_set(e, ERR_TIMEOUT, "no failover within %d s", ROUND_MS / 1000);
        clock_sleep_us(2000);
    }
    *seconds = (double)(clock_mono_us() - since) / 1e6;
    return ERR_OK;
}

/* --- what coordinators say --- */

struct look {
    bool whole; /* built, nothing degraded */
    int64_t safe_since;
};

static struct look look_at(unsigned d)
{
    char degraded[16] = "", built[8] = "";
    struct look l = {0};
    struct client *c = &all.client[d];
    if (client_status(c, FILTER, "degraded", degraded, sizeof(degraded), NULL) == ERR_OK &&
        client_status(c, FILTER, "built", built, sizeof(built), NULL) == ERR_OK &&
        client_status_number(c, FILTER, "healthy_at", &l.safe_since, NULL) == ERR_OK)
        l.whole = strcmp(degraded, "0") == 0 && strcmp(built, "1") == 0;
    return l;
}

/* Wait until both coordinators say for a while that all is well. After a failover, the filter must have
 * become healthy since then. In the other ways, the loss must have been noticed first. */
static enum err await_safe(enum way way, const int64_t before[2], uint64_t since, double *seconds,
                           struct error *e)
{
    bool noticed[2] = {false, false};
    unsigned steady = 0;
    uint64_t at = 0;
    while (steady < STEADY_LOOKS) {
        bool well = true;
        for (unsigned d = 0; d < 2; d++) {
            struct look l = look_at(d);
            noticed[d] |= way == KILL || way == KILL_LAGGING ? l.safe_since > before[d] : !l.whole;
            well &= l.whole && noticed[d];
        }
        at = steady == 0 ? clock_mono_us() : at;
        steady = well ? steady + 1 : 0;
        *seconds = (double)(clock_mono_us() - since) / 1e6;
        if (clock_mono_us() - since > ROUND_MS * 1000ull)
            return error_set(e, ERR_TIMEOUT, "%s within %d s",
                             noticed[0] && noticed[1] ? "not whole" : "not noticed", ROUND_MS / 1000);
        clock_sleep_us(20000);
    }
    *seconds = (double)(at - since) / 1e6;
    return ERR_OK;
}

/* --- one round --- */

static enum err lose(enum way way, unsigned node, struct error *e)
{
    if (way == FLUSH)
        return client_ok(&all.cluster.client[node], e, "FLUSHALL");
    temp_redis_kill(&all.cluster.node[node]);
    if (way != RESTART_EMPTY)
        return ERR_OK;
    char dump[PATH_MAX + 32]; /* written when the node was a replica */
    (void)snprintf(dump, sizeof(dump), "%s/data/dump.rdb", all.cluster.node[node].directory);
    (void)unlink(dump);
    return temp_redis_restart(&all.cluster.node[node], true, e);
}

static enum err count_strangers(uint64_t *present, struct error *e);

static enum err verify(struct outcome *out, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned d = 0; d < 2 && code == ERR_OK; d++) {
        uint64_t absent = 0, asked = 0;
        code = failover_load_verify(&all.load, d, VERIFY_STEP, &absent, &asked, e);
        out->absent_after += absent;
        out->asked += asked;
    }
    return code == ERR_OK ? count_strangers(&out->strangers, e) : code;
}

static enum err run_round(const struct plan *p, unsigned number, struct outcome *out, struct error *e)
{
    char key[24];
    int64_t before[2];
    unsigned home = pair_of("twinbloom:{" FILTER "}:view");
    unsigned pair = p->home ? home : (home + 1 + number % 2) % PAIRS;
    unsigned node = temp_cluster_master(&all.cluster, pair);
    enum err code = ERR_OK;
    *out = (struct outcome){.by = "-"};
    find_key(pair, key);
    for (unsigned d = 0; d < 2; d++)
        before[d] = look_at(d).safe_since;
    if (p->way == KILL_LAGGING)
        code = hold_replica_back(node, e);
    struct failover_sum at_loss = failover_load_sum(&all.load);
    uint64_t since = clock_mono_us();
    if (code == ERR_OK)
        code = lose(p->way, node, e);
    if (code == ERR_OK && (p->way == KILL || p->way == KILL_LAGGING))
        code = await_heir(other_of(node), key, since, &out->failover, e);
    if (code == ERR_OK)
        code = await_safe(p->way, before, since, &out->safe, e);
    struct failover_sum at_safe = failover_load_sum(&all.load);
    clock_sleep_us(AFTERWARDS_US);
    struct failover_sum end = failover_load_sum(&all.load);
    out->served = end.last_bad_us > since ? (double)(end.last_bad_us - since) / 1e6 : 0;
    out->failed = end.failed - at_loss.failed;
    out->absent_degraded = at_safe.absent - at_loss.absent;
    out->absent_after = end.absent - at_safe.absent;
    (void)!client_status(&all.client[0], FILTER, "job_heal_by", out->by, sizeof(out->by), NULL);
    if (code == ERR_OK)
        code = verify(out, e);
    return code == ERR_OK ? temp_cluster_mend(&all.cluster, START_MS, e) : code;
}

/* --- setting up --- */

static size_t stranger(uint64_t number, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "stranger-%" PRIu64, number);
}

static enum err count_strangers(uint64_t *present, struct error *e)
{
    return client_mexists(&all.client[1], FILTER, stranger, 0, STRANGERS, present, NULL, e);
}

static enum err load_rows(uint64_t rows, struct error *e)
{
    char sql[512];
    PGconn *db = PQconnectdb(all.postgres.dsn);
    (void)snprintf(sql, sizeof(sql),
                   "CREATE TABLE short_link (id bigint GENERATED ALWAYS AS IDENTITY, code text NOT NULL);"
                   "INSERT INTO short_link (code) SELECT 'c' || n FROM generate_series(0, %" PRIu64
                   "::bigint - 1) n;"
                   "ALTER TABLE short_link ADD PRIMARY KEY (id)",
                   rows);
    const char *const statements[] = {sql, "VACUUM (ANALYZE) short_link"};
    enum err code = ERR_OK;
    for (unsigned i = 0; i < 2 && code == ERR_OK; i++) {
        PGresult *r = PQexec(db, statements[i]);
        if (PQresultStatus(r) != PGRES_COMMAND_OK)
            code = error_set(e, ERR_IO, "%s", PQerrorMessage(db));
        PQclear(r);
    }
    PQfinish(db);
    return code;
}

static enum err start_daemons(uint64_t rows, struct error *e)
{
    char filters[400];
    (void)snprintf(filters, sizeof(filters),
                   "[filter " FILTER "]\ncapacity = %" PRIu64
                   "\nerror_rate = %g\ntable = short_link\nid_column = id\n"
                   "key = code\ngrace = 100ms\nfollow = no\n",
                   rows + ROOM, error_rate);
    const struct daemon_options o = {.cluster = all.cluster.seeds,
                                     .nodes = all.cluster.seeds,
                                     .dsn = all.postgres.dsn,
                                     .redis = "shard_bytes = 256KiB\n",
                                     .filters = filters};
    enum err code = ERR_OK;
    for (unsigned d = 0; d < 2 && code == ERR_OK; d++) {
        code = daemon_start(&all.daemon[d], &o, e);
        if (code == ERR_OK)
            code = client_open(&all.client[d], all.daemon[d].port, REPLY_MS, e);
        all.load.port[d] = all.daemon[d].port;
    }
    for (unsigned d = 0; d < 2 && code == ERR_OK; d++)
        code = client_wait_status(&all.client[d], FILTER, "built", "1", START_MS, e);
    return code == ERR_OK ? client_wait_status(&all.client[0], FILTER, "phase", "STEADY", START_MS, e) : code;
}

static enum err start_all(uint64_t rows, struct error *e)
{
    const struct temp_postgres_options o = {.settings = "shared_buffers = 512MB\nmax_wal_size = 4GB\n"};
    enum err code = temp_cluster_start(&all.cluster, PAIRS, 0, PAIRS, e);
    if (code == ERR_OK)
        code = temp_postgres_start(&all.postgres, &o, e);
    if (code == ERR_OK)
        code = load_rows(rows, e);
    if (code == ERR_OK)
        code = start_daemons(rows, e);
    all.load.filter = FILTER;
    all.load.dsn = all.postgres.dsn;
    all.load.rows = rows;
    return code == ERR_OK ? failover_load_start(&all.load, e) : code;
}

/* Keep the coordinator's log in the directory TWINBLOOM_LOGS, if that is set. */
static void keep_log(unsigned d)
{
    char path[PATH_MAX];
    const char *directory = getenv("TWINBLOOM_LOGS");
    if (directory == NULL || all.daemon[d].process.log[0] == '\0')
        return;
    (void)snprintf(path, sizeof(path), "%s/coordinator-%u.log", directory, d);
    char *text = process_log(&all.daemon[d].process);
    FILE *f = fopen(path, "we");
    if (f != NULL) {
        (void)fputs(text, f);
        (void)fclose(f);
    }
    free(text);
}

static void end_all(void)
{
    failover_load_stop(&all.load);
    for (unsigned d = 0; d < 2; d++) {
        keep_log(d);
        client_close(&all.client[d]);
        (void)daemon_fini(&all.daemon[d]);
    }
    temp_cluster_fini(&all.cluster);
    if (all.postgres.directory[0] != '\0')
        temp_postgres_fini(&all.postgres);
}

/* --- the table --- */

static void print_round(const struct plan *p, const struct outcome *o)
{
    (void)printf("  %-34s %8.2f %8.2f %8.2f  %-8s %7" PRIu64 " %9" PRIu64 " %9" PRIu64 " %6.2f\n", p->name,
                 o->failover, o->served, o->safe, o->by, o->failed, o->absent_degraded, o->absent_after,
                 (double)o->strangers / STRANGERS * 1000);
    (void)fflush(stdout);
}

static void judge(const struct outcome *o, unsigned count)
{
    struct samples failover = {0}, served = {0}, safe = {0};
    double late = 0, slow_heal = 0, slow_safe = 0, strangers = 0;
    uint64_t degraded = 0, after = 0;
    for (unsigned i = 0; i < count; i++) {
        bool kill = plans[i].way == KILL || plans[i].way == KILL_LAGGING;
        degraded += o[i].absent_degraded;
        after += o[i].absent_after;
        strangers = (double)o[i].strangers > strangers ? (double)o[i].strangers : strangers;
        if (kill) {
            samples_add(&failover, o[i].failover);
            samples_add(&served, o[i].served);
            samples_add(&safe, o[i].safe);
            late = o[i].served - o[i].failover > late ? o[i].served - o[i].failover : late;
            slow_safe = o[i].safe > slow_safe ? o[i].safe : slow_safe;
        } else {
            slow_heal = o[i].safe > slow_heal ? o[i].safe : slow_heal;
        }
    }
    (void)printf("\n  failovers, medians: the cluster's own %.2f s, full service after %.2f s, safe again "
                 "after %.2f s\n",
                 samples_median(&failover), samples_median(&served), samples_median(&safe));
    table_heading("Promises, the worst of all rounds", "");
    table_target("full service later than the cluster's own failover", late, "s", true, served_target);
    table_target("safe again after a failover", slow_safe, "s", true, healed_target);
    table_target("healed after a third of the shards was lost", slow_heal, "s", true, healed_target);
    table_target("acknowledged keys reported absent while degraded", (double)degraded, "keys", true, 0);
    table_target("acknowledged keys reported absent when safe again", (double)after, "keys", true, 0);
    table_target("absent keys reported present when safe again / the error rate",
                 strangers / STRANGERS / error_rate, "times", true, stranger_target);
}

static enum err measure(unsigned count, struct error *e)
{
    static struct outcome o[PLANS];
    enum err code = ERR_OK;
    table_heading("Rounds (seconds since the loss; errors are commands that failed)",
                  "                                     failover   served     safe  healed   errors  absent: "
                  " absent:   fpr\n"
                  "                                      cluster      all    again      by          degraded "
                  "    safe  1/1000");
    for (unsigned i = 0; i < count && code == ERR_OK; i++) {
        code = run_round(&plans[i], i, &o[i], e);
        print_round(&plans[i], &o[i]);
        if (code != ERR_OK && o[i].safe < healed_target)
            return error_prefix(e, code, "%s", plans[i].name);
        if (code != ERR_OK) { /* the next round would not begin with a healthy filter */
            (void)printf("  %s: %s\n", plans[i].name, e->text);
            count = i + 1;
            code = ERR_OK;
        }
    }
    struct failover_sum s = failover_load_sum(&all.load);
    (void)printf("\n  %" PRIu64 " keys acknowledged, %" PRIu64 " checked beside that; the first error: %s\n",
                 s.acknowledged, s.checked, failover_load_why(&all.load));
    judge(o, count);
    return ERR_OK;
}

int main(int argc, char **argv)
{
    uint64_t rows = 5000000, count = PLANS;
    struct error e = {""};
    if (argc > 3 || (argc > 1 && (!number_u64(argv[1], strlen(argv[1]), &rows) || rows < 10000)) ||
        (argc > 2 && (!number_u64(argv[2], strlen(argv[2]), &count) || count == 0 || count > PLANS))) {
        (void)fprintf(stderr, "usage: failover [ROWS [ROUNDS]]\n");
        return 2;
    }
    (void)alarm(RUN_SECONDS); /* servers die with this process */
    enum err code = start_all(rows, &e);
    if (code == ERR_OK) {
        clock_sleep_us(2000000);
        code = measure((unsigned)count, &e);
    }
    end_all();
    if (code != ERR_OK)
        (void)fprintf(stderr, "failover: %s\n", e.text);
    return code == ERR_OK && table_missed() == 0 ? 0 : 1;
}
