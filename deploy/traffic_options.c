/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "deploy/traffic.h"

static const char usage[] = "usage: traffic --daemon PORT --postgres DSN [options]\n"
                            "  --redis PORT,PORT...  of the nodes, to say what memory the filter takes\n"
                            "  --filter NAME         filter to use (short-link)\n"
                            "  --prefix P            of the keys in Redis (twinbloom)\n"
                            "  --error-rate P        promised false-positive rate (0.001)\n"
                            "  --creators N          threads that create links (4)\n"
                            "  --checkers N          threads that check (4)\n"
                            "  --adds-per-second N   of all creators; 0: as fast as they can (300)\n"
                            "  --checks-per-second N keys, of all checkers; 0: as fast as they can (20000)\n"
                            "  --rebuilds N          to be seen; the first starts by itself (2); 0: "
                            "--steady-seconds once it is built\n"
                            "  --rebuild COMMAND     how to ask for the others\n"
                            "  --steady-seconds N    of calm before each of these (5)\n"
                            "  --deadline N          seconds (150)\n"
                            "  --report FILE         write the report as JSON too\n";

enum {
    OPTION_DAEMON = 256,
    OPTION_REDIS,
    OPTION_POSTGRES,
    OPTION_FILTER,
    OPTION_PREFIX,
    OPTION_ERROR_RATE,
    OPTION_CREATORS,
    OPTION_CHECKERS,
    OPTION_ADDS,
    OPTION_CHECKS,
    OPTION_EXPANSIONS,
    OPTION_EXPAND,
    OPTION_STEADY,
    OPTION_DEADLINE,
    OPTION_REPORT
};

static const struct option long_options[] = {{"daemon", required_argument, NULL, OPTION_DAEMON},
                                             {"redis", required_argument, NULL, OPTION_REDIS},
                                             {"postgres", required_argument, NULL, OPTION_POSTGRES},
                                             {"filter", required_argument, NULL, OPTION_FILTER},
                                             {"prefix", required_argument, NULL, OPTION_PREFIX},
                                             {"error-rate", required_argument, NULL, OPTION_ERROR_RATE},
                                             {"creators", required_argument, NULL, OPTION_CREATORS},
                                             {"checkers", required_argument, NULL, OPTION_CHECKERS},
                                             {"adds-per-second", required_argument, NULL, OPTION_ADDS},
                                             {"checks-per-second", required_argument, NULL, OPTION_CHECKS},
                                             {"rebuilds", required_argument, NULL, OPTION_EXPANSIONS},
                                             {"rebuild", required_argument, NULL, OPTION_EXPAND},
                                             {"steady-seconds", required_argument, NULL, OPTION_STEADY},
                                             {"deadline", required_argument, NULL, OPTION_DEADLINE},
                                             {"report", required_argument, NULL, OPTION_REPORT},
                                             {NULL, 0, NULL, 0}};

static bool whole(const char *text, unsigned least, unsigned most, unsigned *out)
{
    uint64_t value;
    if (!number_u64(text, strlen(text), &value) || value < least || value > most)
        return false;
    *out = (unsigned)value;
    return true;
}

static bool rate(const char *text, double *out)
{
    return number_double(text, strlen(text), out) && *out > 0 && *out < 1;
}

static bool take_option(struct options *o, int option, const char *text)
{
    switch (option) {
    case OPTION_DAEMON:
        return observe_ports(text, &o->daemon_port, 1) == 1;
    case OPTION_REDIS:
        return (o->nodes = observe_ports(text, o->node, NODES_MAX)) > 0;
    case OPTION_POSTGRES:
        return *(o->postgres = text) != '\0';
    case OPTION_FILTER:
        return *(o->filter = text) != '\0';
    case OPTION_PREFIX:
        return *(o->prefix = text) != '\0';
    case OPTION_ERROR_RATE:
        return rate(text, &o->error_rate);
    case OPTION_CREATORS:
        return whole(text, 1, THREADS_MAX, &o->creators);
    case OPTION_CHECKERS:
        return whole(text, 1, THREADS_MAX, &o->checkers);
    case OPTION_ADDS:
        return whole(text, 0, 1000000, &o->adds_per_second);
    case OPTION_CHECKS:
        return whole(text, 0, 100000000, &o->checks_per_second);
    case OPTION_EXPANSIONS:
        return whole(text, 0, EXPANSIONS_MAX, &o->expansions);
    case OPTION_EXPAND:
        return *(o->expand_command = text) != '\0';
    case OPTION_STEADY:
        return whole(text, 0, 3600, &o->steady_seconds);
    case OPTION_DEADLINE:
        return whole(text, 1, 3600, &o->deadline_seconds);
    case OPTION_REPORT:
        return *(o->report = text) != '\0';
    default:
        return false;
    }
}

bool options_read(struct options *o, int argc, char **argv)
{
    *o = (struct options){.filter = "short-link",
                          .prefix = "twinbloom",
                          .error_rate = 0.001,
                          .creators = 4,
                          .checkers = 4,
                          .adds_per_second = 300,
                          .checks_per_second = 20000,
                          .expansions = 2,
                          .steady_seconds = 5,
                          .deadline_seconds = 150};
    bool ok = true;
    int option;
    while (ok && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        ok = take_option(o, option, optarg);
    ok = ok && optind == argc && o->daemon_port != 0 && o->postgres != NULL &&
         (o->expansions <= 1 || o->expand_command != NULL);
    if (!ok)
        (void)fputs(usage, stderr);
    return ok;
}
