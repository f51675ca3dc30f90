/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_TEMP_REDIS_H
#define TESTS_LIB_TEMP_REDIS_H
/* A test's own redis-server: a free loopback port, its own directory, and no persistence unless asked for. */
#include "tests/lib/process.h"

enum { TEMP_REDIS_ARGS_MAX = 32 };

struct temp_redis {
    uint16_t port;
    char url[64]; /* redis://127.0.0.1:port */
    char directory[PATH_MAX];
    const char *extra[TEMP_REDIS_ARGS_MAX]; /* the caller owns the strings */
    size_t extra_count;
    struct process process;
};

/* The program to start: the environment variable TWINBLOOM_REDIS_SERVER (a name or a path), else
 * redis-server. */
const char *temp_redis_program(void);
/* True if that program is Redis 6, which lacks some settings and commands that tests use. Call from the main
 * thread. */
bool temp_redis_is_before_7(void);

/* Start a server and wait until it answers PING. @extra: more arguments, NULL-terminated, such as
 * {"--maxmemory", "64mb", NULL}, or NULL. */
MUST_CHECK enum err temp_redis_start(struct temp_redis *r, const char *const extra[], struct error *e);

/* Choose a port and make a directory, but start no server: temp_redis_restart() does that. */
MUST_CHECK enum err temp_redis_prepare(struct temp_redis *r, const char *const extra[], struct error *e);

/* Send SIGTERM, and SIGKILL after 10 s. The directory stays. */
void temp_redis_stop(struct temp_redis *r);

/* Send SIGKILL, as in a crash. */
void temp_redis_kill(struct temp_redis *r);

/* Start the server again on the same port and wait for PING. Data survive only if @keep_data is set and the
 * extra arguments had them saved. */
MUST_CHECK enum err temp_redis_restart(struct temp_redis *r, bool keep_data, struct error *e);

/* Stop the server and remove its directory. A zeroed struct is fine. */
void temp_redis_fini(struct temp_redis *r);
#endif
