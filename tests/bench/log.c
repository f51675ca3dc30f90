/* SPDX-License-Identifier: MIT */
/* bench_log: the figures of the core that is a log (shard/log, resident, view, request) against their
 * targets, through key_check(), key_add() and the control. Exit status 1 if a target is missed. */
#include "log_bench.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(const struct bench *b);
} parts[] = {{"lookup", bench_lookup},
             {"traffic", bench_traffic},
             {"tails", bench_tails},
             {"load", bench_load},
             {"lane", bench_lane}};

int main(int argc, char **argv)
{
    static const struct option options[] = {{"module", required_argument, NULL, 'm'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"quick", no_argument, NULL, 'q'},
                                            {NULL, 0, NULL, 0}};
    struct bench b = {0};
    const char *only = NULL;
    unsigned run = 0;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'm')
            b.module = optarg;
        else if (option == 'o')
            only = optarg;
        else if (option == 'q')
            b.quick = true;
        else
            return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (only == NULL || strcmp(only, parts[i].name) == 0) {
            parts[i].run(&b);
            run++;
        }
    if (run == 0) {
        (void)fprintf(stderr, "bench_log: no part \"%s\"\n", only);
        return 2;
    }
    return table_missed() > 0;
}
