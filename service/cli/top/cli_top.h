/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_TOP_CLI_TOP_H
#define SERVICE_CLI_TOP_CLI_TOP_H
/* top: a live screen. The happy path is: every few seconds request counters, filters and coordinators from
 * the service and redraw the screen, with rates from the difference of two looks. Possible failure modes are:
 * there is no terminal (an error); the service goes away (the last figures and the error stay until it is
 * back); signals (the terminal is restored). */
#include "service/cli/common/cli.h"

cli_handler cli_top;

enum { TOP_TRIPS = 128 };

/* Figures found at one time. */
struct top_look {
    uint64_t at_us; /* 0: never */
    redisReply *filters, *coordinators;
    bool has_info;
    uint64_t commands, connections, clients, memory, uptime_s;
    double cpu_s;
    char version[32];
};

struct top {
    const struct cli *cli;
    struct top_look now, before;
    uint64_t trip_us[TOP_TRIPS]; /* round trips of PING, a ring */
    size_t trips;                /* number of round trips in all */
    char error[512];             /* error of the last look; "": it succeeded */
    uint64_t wall_s;
};

/* Draw the screen: at most @rows lines of at most @columns, each ended by \n. Pure except for the local
 * time. */
void top_render(struct buffer *out, const struct top *t, unsigned columns, unsigned rows);

/* Append a line of @text cut to @columns (color codes have no width), with a newline. */
void top_cut(struct buffer *out, const char *text, size_t length, unsigned columns);

/* A quantile of the last round trips, us; 0: there are none. */
uint64_t top_trip(const struct top *t, double quantile);
#endif
