/* SPDX-License-Identifier: MIT */
/* cluster: what a check costs all Redis processes of a cluster together, against one Redis that holds the
 * same filter. The same BF.MEXISTS are sent to a coordinator of each, in turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "bench.h"
#include "workloads.h"

enum { PER_COMMAND = 100, DEPTH_HERE = 16, NODES_MAX = 16, CAPACITY = 4000000, FILLED = 400000 };

static const double target = 1.1;

/* One Redis or the masters of a cluster, and the coordinator that uses them. */
struct side {
    const char *name;
    uint16_t port;
    unsigned count;
    redisContext *node[NODES_MAX];
    redisContext *daemon;
    struct samples cpu_us, rate; /* per check; checks per second */
};

static enum err open_side(struct side *s, const char *daemon, const char *nodes, struct error *e)
{
    uint16_t ports[NODES_MAX], port[1];
    if (observe_ports(daemon, port, 1) != 1 || (s->count = observe_ports(nodes, ports, NODES_MAX)) == 0)
        return error_set(e, ERR_RANGE, "%s: ports are numbers, comma separated", s->name);
    s->port = port[0];
    enum err code = observe_connect(&s->daemon, s->port, TIMEOUT_MS, "the daemon", e);
    for (unsigned i = 0; i < s->count && code == ERR_OK; i++)
        code = observe_connect(&s->node[i], ports[i], TIMEOUT_MS, "Redis", e);
    return code;
}

static enum err cpu_of(const struct side *s, double *out, struct error *e)
{
    enum err code = ERR_OK;
    *out = 0;
    for (unsigned i = 0; i < s->count && code == ERR_OK; i++) {
        double one = 0;
        code = measure_redis_cpu(s->node[i], &one, e);
        *out += one;
    }
    return code;
}

static enum err run_workload(struct side *s, const char *command, uint64_t first, uint64_t keys, double *cpu,
                             double *seconds, struct error *e)
{
    struct request r = {.command = command, .filter = "bench"};
    const struct workload w = {.name = command,
                               .port = s->port,
                               .depth = DEPTH_HERE,
                               .per_command = PER_COMMAND,
                               .keys = keys,
                               .format = request_filter,
                               .arg = &r};
    struct pipeline p;
    struct run_result result = {0};
    double before = 0, after = 0;
    enum err code = pipeline_make(&p, &w, first, e);
    if (code != ERR_OK)
        return code;
    code = cpu_of(s, &before, e);
    if (code == ERR_OK)
        code = pipeline_run(&p, s->node[0], 0, &result, e);
    if (code == ERR_OK)
        code = cpu_of(s, &after, e);
    *cpu = (after - before) * 1e6 / (double)p.keys;
    *seconds = result.seconds;
    pipeline_free(&p);
    return code;
}

static enum err fill(struct side *s, struct error *e)
{
    double ignored[2];
    redisReply *r = redisCommand(s->daemon, "BF.RESERVE bench 0.001 %d", CAPACITY);
    enum err code = r != NULL && r->type == REDIS_REPLY_STATUS
                        ? ERR_OK
                        : error_set(e, ERR_REFUSED, "BF.RESERVE: %s", r != NULL ? r->str : s->daemon->errstr);
    freeReplyObject(r);
    return code == ERR_OK ? run_workload(s, "BF.MADD", 0, FILLED, &ignored[0], &ignored[1], e) : code;
}

static enum err round_of(struct side *s, uint64_t keys, bool counted, struct error *e)
{
    double cpu, seconds;
    enum err code = run_workload(s, "BF.MEXISTS", 0, keys, &cpu, &seconds, e);
    if (code != ERR_OK || !counted)
        return code;
    samples_add(&s->cpu_us, cpu);
    samples_add(&s->rate, (double)keys / seconds);
    return ERR_OK;
}

static enum err measure(struct side sides[2], uint64_t keys, uint64_t rounds, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < 2 && code == ERR_OK; i++)
        code = fill(&sides[i], e);
    for (uint64_t round = 0; round <= rounds && code == ERR_OK; round++) /* the first round warms up */
        for (unsigned i = 0; i < 2 && code == ERR_OK; i++)
            code = round_of(&sides[(i + round) % 2], keys, round > 0, e);
    return code;
}

int main(int argc, char **argv)
{
    struct side sides[2] = {{.name = "one Redis"}, {.name = "cluster"}};
    struct error e = {""};
    uint64_t keys, rounds;
    if (argc != 7 || !number_u64(argv[5], strlen(argv[5]), &keys) || keys == 0 ||
        !number_u64(argv[6], strlen(argv[6]), &rounds) || rounds == 0 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: cluster DAEMON REDIS DAEMON MASTER,MASTER,... KEYS ROUNDS (ports)\n");
        return 2;
    }
    enum err code = open_side(&sides[0], argv[1], argv[2], &e);
    if (code == ERR_OK)
        code = open_side(&sides[1], argv[3], argv[4], &e);
    if (code == ERR_OK)
        code = measure(sides, keys, rounds, &e);
    if (code != ERR_OK) {
        (void)fprintf(stderr, "cluster: %s\n", e.text);
        return 1;
    }
    (void)printf("  BF.MEXISTS of %d keys, %d in a batch, %d connections; medians of %u rounds\n",
                 PER_COMMAND, DEPTH_HERE, LANES, (unsigned)rounds);
    for (unsigned i = 0; i < 2; i++)
        (void)printf("  %-12s %u node(s): %6.3f us of Redis CPU a check, %9.0f checks/s\n", sides[i].name,
                     sides[i].count, samples_median(&sides[i].cpu_us), samples_median(&sides[i].rate));
    double ratio = samples_median(&sides[1].cpu_us) / samples_median(&sides[0].cpu_us);
    (void)printf("  Redis CPU a check, cluster / one: %.2f (target: at most %.2f) %s\n", ratio, target,
                 ratio <= target ? "met" : "MISSED");
    return ratio <= target ? 0 : 1;
}
