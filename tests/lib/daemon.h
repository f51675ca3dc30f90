/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_DAEMON_H
#define TESTS_LIB_DAEMON_H
/* A twinbloomd of the test's own, with a configuration file written for it. */
#include "tests/lib/client.h"
#include "tests/lib/process.h"

/* What the file says. NULL: nothing. The texts of sections are lines "key = value\n". */
struct daemon_options {
    const char *nodes;     /* redis://..., redis://... */
    const char *cluster;   /* the same of a cluster, instead */
    const char *dsn;       /* NULL: no [postgres] section */
    const char *service;   /* further lines of [service] */
    const char *redis;     /* of [redis] */
    const char *postgres;  /* of [postgres] */
    const char *expansion; /* of [rebuild] */
    const char *filters;   /* whole [filter NAME] sections */
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

/* Take ports and a directory and write the configuration; start nothing. */
MUST_CHECK enum err daemon_prepare(struct daemon *d, const struct daemon_options *o, struct error *e);

/* Write the configuration again, whole or not at all; a daemon that runs reads it at daemon_reload(). */
MUST_CHECK enum err daemon_rewrite(struct daemon *d, const struct daemon_options *o, struct error *e);

/* SIGHUP, and wait for the outcome in the log (level info is needed). ERR_CONFIG: the file was refused, the
 * text is the line of the log. */
MUST_CHECK enum err daemon_reload(struct daemon *d, struct error *e);

/* Start it, or start it again on the same ports, and wait until it answers PING. */
MUST_CHECK enum err daemon_launch(struct daemon *d, struct error *e);

/* daemon_prepare() and daemon_launch(). */
MUST_CHECK enum err daemon_start(struct daemon *d, const struct daemon_options *o, struct error *e);

/* SIGTERM; true if it ended with status 0 within the deadline (it is killed otherwise). */
bool daemon_stop(struct daemon *d, unsigned deadline_ms);
void daemon_kill(struct daemon *d);   /* SIGKILL */
void daemon_pause(struct daemon *d);  /* SIGSTOP */
void daemon_resume(struct daemon *d); /* SIGCONT */

/* Run `twinbloomd ARGUMENT -c FILE` on its configuration, e.g. --check-config: output (the caller frees it)
 * and exit status. */
MUST_CHECK enum err daemon_run(struct daemon *d, const char *argument, char **output, int *status,
                               struct error *e);

/* Stop it and remove its directory. False: it did not end cleanly (a sanitizer's report counts as that), and
 * its log was shown. Fine, and true, on a zeroed struct and on one that was killed. */
bool daemon_fini(struct daemon *d);
#endif
