/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/random.h"
#include "tests/fault/fault.h"
#include "tests/fault/journal.h"

static volatile sig_atomic_t interrupted;

bool fault_interrupted(void)
{
    return interrupted != 0;
}

/* splitmix64 */
uint64_t fault_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t fault_between(uint64_t *state, uint64_t low, uint64_t high)
{
    return low + fault_random(state) % (high - low + 1);
}

static void on_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

static const char usage[] =
    "usage: fault [--cluster] [--each] [--rounds N] [--minutes N] [--only KIND] [--seed N]\n"
    "       fault --stepwise [--stride K [--offset O] | --most N] [--seed N]\n"
    "       fault --primaries [--stride K | --most N] [--seed N]\n"
    "\n"
    "Injects faults while keys are added, checked and rebuilt; 1 is the status where an acknowledged key is\n"
    "reported absent, or the filter does not come to rest.\n"
    "\n"
    "  --cluster     on a Redis Cluster of three masters and three replicas, instead of two nodes\n"
    "  --each        a round with each kind of fault\n"
    "  --rounds N    then N rounds with faults picked by the seed\n"
    "  --minutes N   then such rounds for so long\n"
    "  --only KIND   with this kind of fault alone\n"
    "  --list        say which kinds there are\n"
    "  --stepwise    kill the driver of an expansion at each of its requests\n"
    "  --primaries   lead `dsn` to another server at each request of an expansion\n"
    "  --stride K    at every K-th only, from the O-th on (0 to K - 1; drawn by the seed if not given)\n"
    "  --most N      choose the stride so that about N deaths are tried\n"
    "  --seed N      repeat the choice of faults\n"
    "  --verbose     print each fault\n"
    "  --keep        leave the directories of the servers behind\n";

enum {
    EACH = 256,
    CLUSTER,
    ROUNDS,
    MINUTES,
    ONLY,
    STEPWISE,
    PRIMARIES,
    STRIDE,
    OFFSET,
    MOST,
    SEED,
    VERBOSE,
    KEEP,
    LIST,
    HELP
};

static const struct option long_options[] = {
    {"each", no_argument, NULL, EACH},           {"cluster", no_argument, NULL, CLUSTER},
    {"rounds", required_argument, NULL, ROUNDS}, {"minutes", required_argument, NULL, MINUTES},
    {"only", required_argument, NULL, ONLY},     {"stepwise", no_argument, NULL, STEPWISE},
    {"primaries", no_argument, NULL, PRIMARIES}, {"stride", required_argument, NULL, STRIDE},
    {"offset", required_argument, NULL, OFFSET}, {"most", required_argument, NULL, MOST},
    {"seed", required_argument, NULL, SEED},     {"verbose", no_argument, NULL, VERBOSE},
    {"keep", no_argument, NULL, KEEP},           {"list", no_argument, NULL, LIST},
    {"help", no_argument, NULL, HELP},           {0},
};

static uint64_t number_of(const char *text)
{
    uint64_t n;
    if (!number_u64(text, strlen(text), &n)) {
        (void)fprintf(stderr, "fault: %s is no number\n%s", text, usage);
        exit(2);
    }
    return n;
}

static double minutes_of(const char *text)
{
    double n;
    if (!number_double(text, strlen(text), &n) || n <= 0) {
        (void)fprintf(stderr, "fault: %s is no number of minutes\n%s", text, usage);
        exit(2);
    }
    return n;
}

typedef int mode_fn(const struct fault_options *o);

static bool parse(int argc, char **argv, struct fault_options *o, mode_fn **mode)
{
    int c;
    while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        switch (c) {
        case EACH:
            o->each = true;
            break;
        case CLUSTER:
            o->cluster = true;
            break;
        case ROUNDS:
            o->rounds = (unsigned)number_of(optarg);
            break;
        case MINUTES:
            o->minutes = minutes_of(optarg);
            break;
        case ONLY:
            o->only = optarg;
            break;
        case STEPWISE:
            *mode = stepwise_run;
            break;
        case PRIMARIES:
            *mode = primaries_run;
            break;
        case STRIDE:
            o->stride = number_of(optarg);
            break;
        case OFFSET:
            o->offset = number_of(optarg);
            break;
        case MOST:
            o->most = number_of(optarg);
            break;
        case SEED:
            o->seed = number_of(optarg);
            break;
        case VERBOSE:
            o->verbose = true;
            break;
        case KEEP:
            o->keep = true;
            break;
        case LIST:
            o->list = true;
            break;
        case HELP:
            (void)fputs(usage, stdout);
            exit(0);
        default:
            return false;
        }
    return optind == argc;
}

int main(int argc, char **argv)
{
    struct fault_options o = {.seed = random_u64() % 1000000, .stride = 1, .offset = UINT64_MAX};
    mode_fn *mode = rounds_run;
    if (!parse(argc, argv, &o, &mode)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    const struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    if (mode != rounds_run && o.cluster) {
        (void)fputs("fault: such a mode counts requests in a proxy, and a cluster names its own addresses: "
                    "leave out --cluster\n",
                    stderr);
        return 2;
    }
    journal_verbose(o.verbose);
    return mode(&o);
}
