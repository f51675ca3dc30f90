/* SPDX-License-Identifier: MIT */
/* Processes add, check and fold by the libraries of the log on real Redis servers, while faults are injected.
 * No acknowledged key may be reported absent, and each key is new once. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/random.h"
#include "tests/fault/log/steps.h"
#include "tests/fault/log/world.h"

static const char usage[] =
    "usage: log_fault [--rounds N] [--seconds N] [--most N] [--only KIND,...] [--seed N]\n"
    "                 [--keep] [--list]\n"
    "\n"
    "Injects faults while processes add and check keys of a filter on the log. 1 is the status where an\n"
    "acknowledged key is reported absent, is new twice or never, or the filter does not come to rest.\n"
    "\n"
    "  --rounds N    so many rounds of each kind of fault (1)\n"
    "  --seconds N   that faults come in, in each round (6)\n"
    "  --most N      of a stepwise kind, about N steps of each moment; 0: each (12)\n"
    "  --only KIND,...   these kinds alone\n"
    "  --seed N      repeat the choices\n"
    "  --keep        keep the servers' files of a round in which a promise is broken\n"
    "  --list        say which kinds there are\n";

enum { ROUNDS = 256, SECONDS, MOST, ONLY, SEED, KEEP, LIST, HELP };

static const struct option long_options[] = {
    {"rounds", required_argument, NULL, ROUNDS},
    {"seconds", required_argument, NULL, SECONDS},
    {"most", required_argument, NULL, MOST},
    {"only", required_argument, NULL, ONLY},
    {"seed", required_argument, NULL, SEED},
    {"keep", no_argument, NULL, KEEP},
    {"list", no_argument, NULL, LIST},
    {"help", no_argument, NULL, HELP},
    {0},
};

struct options {
    uint64_t rounds, seconds, most, seed;
    const char *only;
    bool keep;
};

static uint64_t number_of(const char *text)
{
    uint64_t n;
    if (!number_u64(text, strlen(text), &n)) {
        (void)fprintf(stderr, "log_fault: %s is no number\n%s", text, usage);
        exit(2);
    }
    return n;
}

static void list(void)
{
    for (const struct log_injection *k = log_injections; k->name != NULL; k++)
        (void)printf("%-14s %s\n", k->name, k->meaning);
    for (const struct step_kind *k = step_kinds; k->name != NULL; k++)
        (void)printf("%-14s %s\n", k->name, k->meaning);
}

static bool parse(int argc, char **argv, struct options *o)
{
    int c;
    while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        switch (c) {
        case ROUNDS:
            o->rounds = number_of(optarg);
            break;
        case SECONDS:
            o->seconds = number_of(optarg);
            break;
        case MOST:
            o->most = number_of(optarg);
            break;
        case ONLY:
            o->only = optarg;
            break;
        case SEED:
            o->seed = number_of(optarg);
            break;
        case KEEP:
            o->keep = true;
            break;
        case LIST:
            list();
            exit(0);
        case HELP:
            (void)fputs(usage, stdout);
            exit(0);
        default:
            return false;
        }
    return optind == argc;
}

/* True: @name is in the comma-separated list. */
static bool is_in(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct options o = {.rounds = 1, .seconds = 6, .most = 12, .seed = random_u64() % 1000000};
    bool ok = true, any = false;
    if (!parse(argc, argv, &o)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)printf("seed %" PRIu64 "\n", o.seed);
    for (const struct log_injection *k = log_injections; k->name != NULL; k++) {
        if (o.only != NULL && !is_in(o.only, k->name))
            continue;
        any = true;
        for (uint64_t i = 0; i < o.rounds; i++)
            ok &= log_round(k, o.seed + i, (unsigned)o.seconds, o.keep);
    }
    for (const struct step_kind *k = step_kinds; k->name != NULL; k++) {
        if (o.only != NULL && !is_in(o.only, k->name))
            continue;
        any = true;
        ok &= steps_run(k->name, (unsigned)o.most, o.seed);
    }
    if (!any) {
        (void)fprintf(stderr, "log_fault: there is no kind %s; --list says which there are\n", o.only);
        return 2;
    }
    return ok ? 0 : 1;
}
