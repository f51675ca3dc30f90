/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stddef.h>
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

enum kind { PORT, PORTS, TEXT, RATE, WHOLE };

static const struct row {
    const char *name;
    enum kind kind;
    size_t at;            /* of the value in struct options */
    unsigned least, most; /* of WHOLE */
} rows[] = {
    {"daemon", PORT, offsetof(struct options, daemon_port), 0, 0},
    {"redis", PORTS, offsetof(struct options, node), 0, 0},
    {"postgres", TEXT, offsetof(struct options, postgres), 0, 0},
    {"filter", TEXT, offsetof(struct options, filter), 0, 0},
    {"prefix", TEXT, offsetof(struct options, prefix), 0, 0},
    {"error-rate", RATE, offsetof(struct options, error_rate), 0, 0},
    {"creators", WHOLE, offsetof(struct options, creators), 1, THREADS_MAX},
    {"checkers", WHOLE, offsetof(struct options, checkers), 1, THREADS_MAX},
    {"adds-per-second", WHOLE, offsetof(struct options, adds_per_second), 0, 1000000},
    {"checks-per-second", WHOLE, offsetof(struct options, checks_per_second), 0, 100000000},
    {"rebuilds", WHOLE, offsetof(struct options, expansions), 0, EXPANSIONS_MAX},
    {"rebuild", TEXT, offsetof(struct options, expand_command), 0, 0},
    {"steady-seconds", WHOLE, offsetof(struct options, steady_seconds), 0, 3600},
    {"deadline", WHOLE, offsetof(struct options, deadline_seconds), 1, 3600},
    {"report", TEXT, offsetof(struct options, report), 0, 0},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static bool take_option(struct options *o, const struct row *row, const char *text)
{
    void *out = (char *)o + row->at;
    double rate;
    uint64_t whole;
    switch (row->kind) {
    case PORT:
        return observe_ports(text, out, 1) == 1;
    case PORTS:
        return (o->nodes = observe_ports(text, out, NODES_MAX)) > 0;
    case TEXT:
        *(const char **)out = text;
        return text[0] != '\0';
    case RATE:
        if (!number_double(text, strlen(text), &rate) || rate <= 0 || rate >= 1)
            return false;
        *(double *)out = rate;
        return true;
    case WHOLE:
        if (!number_u64(text, strlen(text), &whole) || whole < row->least || whole > row->most)
            return false;
        *(unsigned *)out = (unsigned)whole;
        return true;
    }
    return false;
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
    struct option names[ROWS + 1] = {{0}};
    for (int i = 0; i < ROWS; i++)
        names[i] = (struct option){rows[i].name, required_argument, NULL, i};
    bool ok = true;
    int option;
    while (ok && (option = getopt_long(argc, argv, "", names, NULL)) != -1)
        ok = option < ROWS && take_option(o, &rows[option], optarg);
    ok = ok && optind == argc && o->daemon_port != 0 && o->postgres != NULL &&
         (o->expansions <= 1 || o->expand_command != NULL);
    if (!ok)
        (void)fputs(usage, stderr);
    return ok;
}
