/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_DAEMON_H
#define TESTS_LIB_DAEMON_H
/* A test's own twinbloomd, with a configuration file written for it. */
#include "tests/lib/client.h"
#include "tests/lib/process.h"

/* The contents of the configuration file. NULL: nothing. The text for a section has lines "key = value\n". */
struct daemon_options {
    const char *nodes;     /* redis://..., redis://... */
    const char *cluster;   /* the same for a cluster, instead of `nodes` */
    const char *sentinel;  /* sentinels, instead of `nodes`; `master` is in `redis` */
    const char *dsn;       /* NULL: no [postgres] section */
    const char *service;   /* more lines of [service] */
    const char *redis;     /* more lines of [redis] */
    const char *postgres;  /* more lines of [postgres] */
    const char *expansion; /* more lines of [rebuild] */
    const char *filters;   /* complete [filter NAME] sections */
};

struct daemon {
    uint16_t port;
    uint16_t http_port;
    char directory[PATH_MAX];
    char config[PATH_MAX + 16];
    const char *program;        /* NULL: the twinbloomd of this build */
    const char *const *wrapper; /* words before the program, such as env NAME=VALUE; NULL: none */
    struct process process;
};

/* Choose ports, make a directory and write the configuration. Starts nothing. */
MUST_CHECK enum err daemon_prepare(struct daemon *d, const struct daemon_options *o, struct error *e);

/* Replace the configuration atomically. A running daemon reads it at daemon_reload(). */
MUST_CHECK enum err daemon_rewrite(struct daemon *d, const struct daemon_options *o, struct error *e);

/* Send SIGHUP, and wait for the outcome in the log, which must include level info. ERR_CONFIG: the file was
 * refused; the text is the line of the log. */
MUST_CHECK enum err daemon_reload(struct daemon *d, struct error *e);

/* Start the daemon, or start it again on the same ports, and wait until it answers PING. */
MUST_CHECK enum err daemon_launch(struct daemon *d, struct error *e);

/* Call daemon_prepare() and daemon_launch(). */
MUST_CHECK enum err daemon_start(struct daemon *d, const struct daemon_options *o, struct error *e);

/* Send SIGTERM. True: the daemon ended with status 0 within the deadline. Otherwise it is killed. */
bool daemon_stop(struct daemon *d, unsigned deadline_ms);
void daemon_kill(struct daemon *d);   /* SIGKILL */
void daemon_pause(struct daemon *d);  /* SIGSTOP */
void daemon_resume(struct daemon *d); /* SIGCONT */

/* Run `twinbloomd ARGUMENT -c FILE` with this configuration, e.g. --check-config. Returns the output, which
 * the caller frees, and the exit status. */
MUST_CHECK enum err daemon_run(struct daemon *d, const char *argument, char **output, int *status,
                               struct error *e);

/* Stop the daemon and remove its directory. False: it did not end cleanly, or a sanitizer reported an error;
 * its log was printed. Returns true for a zeroed struct and for a daemon that was killed. */
bool daemon_fini(struct daemon *d);
#endif
