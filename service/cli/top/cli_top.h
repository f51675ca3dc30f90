/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_TOP_H
#define SERVICE_CLI_TOP_H
/* top: a live screen. The happy path is: every few seconds the service is asked for its counters, filters and
 * coordinators, and the screen is drawn again, with rates from the difference of two looks. Possible failure
 * modes are: no terminal, which is refused; the service goes away, so the last figures stay, with the error,
 * until it is back; signals, after which the terminal is as it was. */
#include "service/cli/common/cli.h"

cli_handler cli_top;

enum { TOP_TRIPS = 128 };

/* What was found at one time. */
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
    uint64_t trip_us[TOP_TRIPS]; /* of PING, a ring */
    size_t trips;                /* in all */
    char error[512];             /* of the last look; "": it was good */
    uint64_t wall_s;
};

/* The screen: at most @rows lines of at most @columns, each ended by \n. Pure but for the local time. */
void top_render(struct buffer *out, const struct top *t, unsigned columns, unsigned rows);

/* Append a line of @text (whose colours take no room) cut to @columns, with its end. */
void top_cut(struct buffer *out, const char *text, size_t length, unsigned columns);

/* A quantile of the last round trips, us; 0: there are none. */
uint64_t top_trip(const struct top *t, double quantile);
#endif
