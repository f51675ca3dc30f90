/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_FIXTURE_H
#define TESTS_INTEGRATION_FIXTURE_H
/* A whole installation for a test: Redis nodes, Postgres with a table of short links, coordinators. The
 * filter `short-link` is built from the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>

#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/temp_cluster.h"
#include "tests/lib/temp_postgres.h"
#include "tests/lib/temp_redis.h"

#define FILTER "short-link"

/* Fail the test with the error's text unless @expression is ERR_OK. Main thread only. */
#define must(expression, e)                                                                                  \
    do {                                                                                                     \
        if ((expression) != ERR_OK)                                                                          \
            fail_msg("%s: %s", #expression, (e).text);                                                       \
    } while (0)

enum { FIXTURE_NODES_MAX = 4, FIXTURE_DAEMONS_MAX = 3 };

struct fixture;

struct fixture_options {
    unsigned nodes;
    unsigned masters, owners, replicas; /* of a cluster, instead of nodes: see temp_cluster_start() */
    bool tls;                           /* see temp_cluster_start_tls() */
    unsigned daemons;
    bool postgres;
    uint64_t rows;         /* of short_link: codes 0 .. rows - 1, see fixture_code() */
    uint64_t capacity;     /* of the filter; 0: the filter is not configured */
    const char *rate;      /* its error rate as text */
    const char *expansion; /* lines of [rebuild] */
    const char *service;   /* of [service]; NULL: none */
    const char *grace;     /* of the filter; NULL: 500ms */
    const char
        *filter; /* more lines of the filter; NULL: none. Rows are followed only if these lines turn it on */
    const char *schema;                 /* more SQL, before a coordinator starts; NULL: none */
    const char *where;                  /* NULL: deleted_at IS NULL */
    const char *settings;               /* lines of postgresql.conf; NULL: none */
    const char *redis_lines;            /* of [redis]; NULL: none */
    const char *postgres_lines;         /* of [postgres]; NULL: none */
    const char *const *redis;           /* arguments of the nodes, NULL-terminated; NULL: none */
    void (*prepare)(struct fixture *f); /* called before a coordinator starts; NULL: nothing */
    const char *command;                /* sent to the first coordinator, which must reply OK; NULL: none */
};

struct fixture {
    struct temp_redis redis[FIXTURE_NODES_MAX];
    struct temp_cluster cluster;
    struct temp_postgres postgres;
    bool has_postgres;
    PGconn *db;
    struct daemon daemon[FIXTURE_DAEMONS_MAX];
    struct client client[FIXTURE_DAEMONS_MAX]; /* one to each coordinator */
    unsigned nodes, daemons;
    char node_list[TEMP_CLUSTER_NODES_MAX * 66];
};

/* For a CMocka setup: start everything and, if a filter is configured, wait until every coordinator reports
 * it as built. Returns 0. */
int fixture_start(struct fixture *f, const struct fixture_options *o);

/* For a CMocka teardown. Returns 0 if every coordinator that still ran ended cleanly. */
int fixture_stop(struct fixture *f);

/* For main(): run the array @tests on one installation @f that is made with @o. Returns the exit status of
 * main(). */
#define fixture_run_tests(f, o, tests) fixture_run(f, o, tests, sizeof(tests) / sizeof((tests)[0]))
int fixture_run(struct fixture *f, const struct fixture_options *o, const struct CMUnitTest *tests,
                size_t count);

/* Whether coordinators have shards in memory; false if TWINBLOOM_RESIDENT_MEMORY is 0. */
bool fixture_has_memory(void);

/* Run SQL that must succeed. Main thread only. */
void fixture_sql(PGconn *db, const char *sql);

/* The codes of rows, and codes that no row has. */
client_key_fn fixture_code;
client_key_fn fixture_absent_code;

/* Insert the rows [first, first + count) in one statement. Main thread only. */
void fixture_insert(PGconn *db, uint64_t first, uint64_t count);

/* Every code of [first, first + count) must be reported present by coordinator @d. */
void fixture_all_present(struct fixture *f, unsigned d, uint64_t first, uint64_t count);

/* How many of @count absent codes coordinator @d reports as present. */
uint64_t fixture_false_positives(struct fixture *f, unsigned d, uint64_t count);

/* Send a command to coordinator @d, which must reply OK. */
void fixture_ask(struct fixture *f, unsigned d, const char *command);

/* Wait until the filter's status at coordinator @d has @value in @field, for a minute at most. */
void fixture_wait(struct fixture *f, unsigned d, const char *field, const char *value);

/* End the filter's job, if there is one, also in its grace time. Waits until both coordinators say so. */
void fixture_end_job(struct fixture *f);

/* Connect again to a coordinator that was restarted. */
void fixture_reconnect(struct fixture *f, unsigned d);
/* Copy a file of the first Redis' directory, as data/dump.rdb. */
void fixture_copy_dump(const struct fixture *f, const char *from, const char *to);

/* The exit status of the command line (-1: a signal ended it), and what it printed, both outputs. */
struct cli_result {
    int code;
    char text[32768];
};

/* Run the command line against the coordinator at @port, without input. @arguments is part of a shell command
 * and may contain pipes. The result is valid until the next call. Main thread only. */
const struct cli_result *fixture_cli(uint16_t port, const char *arguments);

/* The number of the current generation, as coordinator @d reports it. */
int64_t fixture_generation(struct fixture *f, unsigned d);
#endif
