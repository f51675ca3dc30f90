/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_PROGRESS_H
#define SERVICE_CLI_PROGRESS_H
/* How far a long transfer has come, on standard error: a bar that is drawn again on a terminal, a line every
 * few seconds elsewhere. And Ctrl-C, which ends it in good order. */
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* is counted: "keys", "chunks" */
    uint64_t total;   /* bytes; 0: unknown */
    bool terminal;    /* standard error is one */
    bool drawn;       /* a line is open on it */
    uint64_t started_us, shown_us;
    uint64_t before; /* bytes that were there when it began: no part of the rate */
};

/* Take SIGINT, once: the second Ctrl-C ends the command at once. */
void progress_catch_interrupt(void);
/* The same, and SIGTERM, for a command that ends soon and has to clean up: it is not cut short. */
void progress_catch_all_interrupts(void);
bool progress_interrupted(void);

void progress_begin(struct progress *p, const char *what, uint64_t total, uint64_t before);
/* As often as you like: it is shown a few times a second at most. */
void progress_show(struct progress *p, uint64_t bytes, uint64_t count);
/* Take the line off the terminal again. */
void progress_end(struct progress *p);
double progress_seconds(const struct progress *p);
#endif
