/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_TEMP_POSTGRES_H
#define TESTS_LIB_TEMP_POSTGRES_H
/* A test's own Postgres server: a free loopback port, its own directory, no authentication, no fsync. If the
 * test runs as root, the server runs as the user "postgres", or as "nobody" if there is no such user, because
 * Postgres refuses root. Needs setpriv. */
#include "tests/lib/process.h"

struct temp_postgres_options {
    unsigned max_connections; /* 0: 50 */
    const char *settings;     /* more lines of postgresql.conf; NULL: none */
};

struct temp_postgres {
    uint16_t port;
    char dsn[96]; /* postgresql://postgres@127.0.0.1:port/postgres */
    char directory[PATH_MAX];
    char binaries[PATH_MAX]; /* directory of initdb, postgres and psql */
    struct process process;
};

/* Make a server and wait until it answers. It allows 10 prepared transactions. @options: NULL for the
 * defaults. Call from the main thread: the server is shut down when the thread that started it ends. */
MUST_CHECK enum err temp_postgres_start(struct temp_postgres *p, const struct temp_postgres_options *options,
                                        struct error *e);

/* Make a standby that streams from @primary, and wait until it answers. It reports its position every
 * second. */
MUST_CHECK enum err temp_postgres_start_standby(struct temp_postgres *p, const struct temp_postgres *primary,
                                                struct error *e);

/* Make a server from a copy of @primary's storage, and wait until it answers. */
MUST_CHECK enum err temp_postgres_start_clone(struct temp_postgres *p, const struct temp_postgres *primary,
                                              struct error *e);

/* Shut the server down without waiting for clients; SIGKILL after 10 s. The directory stays. */
void temp_postgres_stop(struct temp_postgres *p);

/* Have transaction ids continue at @epoch times 2^32. Call while the server is stopped. */
MUST_CHECK enum err temp_postgres_set_epoch(struct temp_postgres *p, unsigned epoch, struct error *e);

/* Start the server again on the same port with the same data. */
MUST_CHECK enum err temp_postgres_restart(struct temp_postgres *p, struct error *e);

/* Stop the server and remove its directory. A zeroed struct is fine. */
void temp_postgres_fini(struct temp_postgres *p);
#endif
