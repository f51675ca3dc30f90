/* SPDX-License-Identifier: MIT */
/* sim: the balance over shards and nodes, and the false positives, of a filter of 30 billion keys. Exit
 * status 1: a figure is out of its bound. */
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "tests/sim/sim.h"

void sim_heading(const char *title)
{
    (void)printf("\n%-58s %12s %12s\n", title, "", "at most");
    (void)fflush(stdout);
}

void sim_note(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)fputs("  ", stdout);
    (void)vprintf(format, ap);
    (void)putchar('\n');
    va_end(ap);
}

void sim_figure(struct sim *s, const char *what, double value, double bound, const char *unit)
{
    char limit[32] = "";
    bool missed = value > bound || isnan(value);
    if (!isnan(bound))
        (void)snprintf(limit, sizeof(limit), "%.6g", bound);
    (void)printf("  %-56s %12.6g %12s %s%s\n", what, value, limit, unit, missed ? "   MISSED" : "");
    s->missed += missed;
}

void sim_generation(const struct sim *s, unsigned nodes, uint64_t number, struct generation *out)
{
    *out = (struct generation){.number = number,
                               .seed = UINT64_C(0x9e3779b97f4a7c15) * number,
                               .built = true,
                               .capacity = s->keys,
                               .error_rate = s->error_rate,
                               .layer_count = 1,
                               .node_count = nodes};
    out->layers[0] =
        (struct layer){.geometry = s->geometry, .capacity = s->keys, .error_rate = s->error_rate, .token = 7};
    for (unsigned i = 0; i < nodes; i++)
        (void)snprintf(out->nodes[i], NODE_NAME_MAX, "redis-%u.example:6379", i);
}

static void print_filter(const struct sim *s)
{
    char keys[NUMBER_GROUPED_SIZE], shards[NUMBER_GROUPED_SIZE], blocks[NUMBER_GROUPED_SIZE];
    (void)printf("%s keys at an error rate of %g\n", number_grouped(s->keys, keys), s->error_rate);
    sim_note("%s shards of %s blocks of %u bits, %u bits a key; %.2f GiB, %.2f in Redis; %.2f bits a key",
             number_grouped(s->geometry.shards, shards), number_grouped(s->geometry.blocks, blocks),
             s->geometry.block_bits, s->geometry.hashes, (double)geometry_bytes(&s->geometry) / 0x1p30,
             (double)geometry_memory(&s->geometry) / 0x1p30,
             8 * (double)geometry_bytes(&s->geometry) / (double)s->keys);
}

static int usage(void)
{
    (void)fputs("usage: sim [--keys N] [--error-rate P] [--sample N] [--dense N]\n"
                "  --keys N        of the filter (30e9)\n"
                "  --error-rate P  that it promises (0.001)\n"
                "  --sample N      keys that are routed over all shards (20e6)\n"
                "  --dense N       keys that are put into shards as full as theirs (5e6)\n",
                stderr);
    return 2;
}

static bool take_count(const char *text, uint64_t *out)
{
    double value;
    bool valid = number_double(text, strlen(text), &value) && value >= 1 && value <= 1e15;
    *out = valid ? (uint64_t)value : 0;
    return valid;
}

static bool take_options(struct sim *s, int argc, char **argv)
{
    static const struct option options[] = {{"keys", required_argument, NULL, 'k'},
                                            {"error-rate", required_argument, NULL, 'e'},
                                            {"sample", required_argument, NULL, 's'},
                                            {"dense", required_argument, NULL, 'd'},
                                            {NULL, 0, NULL, 0}};
    int option;
    bool valid = true;
    while (valid && (option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 'k':
            valid = take_count(optarg, &s->keys);
            break;
        case 'e':
            valid = number_double(optarg, strlen(optarg), &s->error_rate);
            break;
        case 's':
            valid = take_count(optarg, &s->sample);
            break;
        case 'd':
            valid = take_count(optarg, &s->dense);
            break;
        default:
            valid = false;
        }
    return valid && optind == argc;
}

int main(int argc, char **argv)
{
    struct sim s = {.keys = UINT64_C(30000000000), .error_rate = 0.001, .sample = 20000000, .dense = 5000000};
    struct error e = {""};
    if (!take_options(&s, argc, argv))
        return usage();
    log_set_level(LOG_LEVEL_WARN);
    uint64_t started = clock_mono_us();
    enum err code = geometry_plan(&s.geometry, s.keys, s.error_rate, SHARD_BYTES_DEFAULT, &e);
    if (code == ERR_OK) {
        print_filter(&s);
        code = sim_route(&s, &e);
    }
    if (code == ERR_OK)
        code = sim_dense(&s, &e);
    if (code != ERR_OK) {
        (void)fprintf(stderr, "sim: %s\n", e.text);
        return 1;
    }
    (void)printf("\n%u figures missed; %.1f s\n", s.missed, (double)(clock_mono_us() - started) / 1e6);
    return s.missed > 0;
}
