/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_COMMON_CLI_PROGRESS_H
#define SERVICE_CLI_COMMON_CLI_PROGRESS_H
/* Progress of a long transfer on standard error: a bar that is redrawn on a terminal, a line every few
 * seconds elsewhere. Also handles Ctrl-C, which ends the transfer in good order. */
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* what is counted: "keys", "chunks" */
    uint64_t total;   /* bytes; 0: unknown */
    bool terminal;    /* standard error is a terminal */
    bool drawn;       /* it shows an unfinished line */
    uint64_t started_us, shown_us;
    uint64_t before; /* bytes that existed at the beginning, not part of the rate */
};

/* Catch SIGINT once: a second Ctrl-C ends the command at once. @all: catch every SIGINT and SIGTERM, for a
 * command that ends soon and must clean up. */
void progress_catch_interrupt(bool all);
bool progress_interrupted(void);

void progress_begin(struct progress *p, const char *what, uint64_t total, uint64_t before);
/* Call it at any rate: it prints at most a few times per second. */
void progress_show(struct progress *p, uint64_t bytes, uint64_t count);
/* Remove the line from the terminal. */
void progress_end(struct progress *p);
double progress_seconds(const struct progress *p);
#endif
