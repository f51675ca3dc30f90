/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_TEMP_REDIS_H
#define TESTS_LIB_TEMP_REDIS_H
/* A redis-server of the test's own: a free loopback port, a directory of its own, nothing saved unless asked
 * for. */
#include "tests/lib/process.h"

enum { TEMP_REDIS_ARGS_MAX = 32 };

struct temp_redis {
    uint16_t port;
    char url[64]; /* redis://127.0.0.1:port */
    char directory[PATH_MAX];
    const char *extra[TEMP_REDIS_ARGS_MAX]; /* the strings belong to the caller */
    size_t extra_count;
    struct process process;
};

/* What is started: TWINBLOOM_REDIS_SERVER of the environment (a name or a path), else redis-server. */
const char *temp_redis_program(void);
/* Whether that is Redis 6, which lacks some settings and commands that tests use. Main thread only. */
bool temp_redis_is_before_7(void);

/* Start one and wait until it answers PING. @extra: NULL-terminated further arguments such as
 * {"--maxmemory", "64mb", NULL}, or NULL. */
MUST_CHECK enum err temp_redis_start(struct temp_redis *r, const char *const extra[], struct error *e);

/* Take a port and a directory, but do not start the server yet: temp_redis_restart() does. */
MUST_CHECK enum err temp_redis_prepare(struct temp_redis *r, const char *const extra[], struct error *e);

/* SIGTERM, SIGKILL after 10 s. The directory stays. */
void temp_redis_stop(struct temp_redis *r);

/* SIGKILL, as in a crash. */
void temp_redis_kill(struct temp_redis *r);

/* Start again on the same port and wait for PING. Data survive only where @keep_data and the extra arguments
 * made it save them. */
MUST_CHECK enum err temp_redis_restart(struct temp_redis *r, bool keep_data, struct error *e);

/* Stop it and remove its directory. Fine on a zeroed struct. */
void temp_redis_fini(struct temp_redis *r);
#endif
