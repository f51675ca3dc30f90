/* SPDX-License-Identifier: MIT */
#ifndef DEPLOY_TRAFFIC_H
#define DEPLOY_TRAFFIC_H
/* Live traffic of a short-link service against a daemon while its filter is expanded, and what it saw.
 * One thread each: creators (Postgres and daemon), checkers (daemon), the watcher (TB.STATUS), the main
 * thread (the scenario, the screen). A thread writes its own figures only; the others read them with relaxed
 * loads. */
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "deploy/codes.h"
#include "base/histogram.h"
#include "deploy/stalls.h"
#include "deploy/keyset.h"
#include "deploy/observe.h"

enum {
    THREADS_MAX = 64,
    NODES_MAX = 16,
    ACKNOWLEDGED_MAX = 1 << 22,
    EXPANSIONS_MAX = 8,
    REQUEST_TIMEOUT_MS = 30000
};

/* Counters from here on are never loaded and never created: their codes are absent for certain. */
#define ABSENT_FROM (CODE_COUNT / 2)
/* New codes start somewhere between these, so that the program can run again on the same table. */
#define CREATED_FROM (UINT64_C(1) << 36)
#define CREATED_TO (UINT64_C(1) << 39)

struct options {
    uint16_t daemon_port;
    uint16_t node[NODES_MAX];
    unsigned nodes;
    const char *postgres;
    const char *prefix;
    const char *filter;
    double error_rate;
    unsigned creators;
    unsigned checkers;
    unsigned adds_per_second;   /* all creators together; 0: as fast as they can */
    unsigned checks_per_second; /* keys, all checkers together; 0: as fast as they can */
    unsigned expansions; /* to be seen: the first starts by itself, the others by @expand_command; 0: none is
                            waited for */
    unsigned steady_seconds; /* of calm traffic before each expansion that is asked for */
    unsigned deadline_seconds;
    const char *expand_command; /* for /bin/sh */
    const char *report;         /* JSON file, or NULL */
};

/* What is known of the filter's state when a request is sent. */
enum moment { MOMENT_UNBUILT, MOMENT_STEADY, MOMENT_BUILDING, MOMENT_SWITCHED, MOMENT_COUNT };
extern const char *const moment_name[MOMENT_COUNT];

/* Written by one creator or checker. */
struct figures {
    struct histogram checks[MOMENT_COUNT]; /* round trips of BF.EXISTS and BF.MEXISTS */
    struct histogram adds[MOMENT_COUNT];   /* round trips of BF.ADD */
    struct histogram creations;            /* BEGIN to the end of COMMIT */
    struct stalls stalls;                  /* requests to the daemon of either kind */
    uint64_t keys_checked;
    uint64_t absent_checked; /* while the filter was built */
    uint64_t absent_maybe;   /* of these, answered 1 */
    uint64_t denied;         /* a known key was answered 0: a broken promise */
    uint64_t refused;        /* error replies */
    uint64_t violations;     /* unique violations met */
    uint64_t healed;         /* of these, keys that the filter did not have yet */
};

/* Count @n more, in the writing thread. */
static inline void tally(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

struct traffic;

struct creator {
    struct traffic *traffic;
    pthread_t thread;
    struct figures *figures;
    PGconn *pg;
    redisContext *daemon;
    struct code *acknowledged; /* ACKNOWLEDGED_MAX places, filled from the front */
    _Atomic size_t acknowledged_count;
    uint64_t random;
};

struct checker {
    struct traffic *traffic;
    pthread_t thread;
    struct figures *figures;
    redisContext *daemon;
    uint64_t random;
};

/* One expansion, as the watcher saw it; times on the monotonic clock, 0: not seen. */
struct expansion {
    uint64_t seen_us;
    uint64_t before_cutover_us; /* the last look before the flip */
    uint64_t after_cutover_us;  /* the first look after it */
    uint64_t done_us;
    uint64_t scan_first_us; /* the first look that found the job scanning */
    uint64_t scan_over_us;  /* the first look after it that did not */
    uint64_t rows;
    uint64_t rows_before; /* read already at the first look */
    double rate;          /* the highest that the daemon gave: all there is of a scan too short to be seen */
    char reason[160];
};

struct traffic {
    struct options options;
    struct code *loaded; /* codes of the rows that were there at the start and are not deleted */
    size_t loaded_count;
    _Atomic uint64_t next_counter;
    uint64_t start_us;
    uint64_t end_us; /* of the live part */

    _Atomic int moment;
    _Atomic bool stop;
    _Atomic bool interrupted;
    _Atomic unsigned done; /* expansions */

    pthread_mutex_t lock; /* of what follows, up to the threads */
    struct status status;
    struct expansion expansion[EXPANSIONS_MAX];
    bool failed;
    char failure[600];
    unsigned denied_shown;

    unsigned creator_count, checker_count;
    struct creator creator[THREADS_MAX];
    struct checker checker[THREADS_MAX];
    pthread_t watcher;
    redisContext *watched; /* the watcher's connection */

    struct keyset_result bare_scan; /* under the same traffic */
    uint64_t rechecked;
    uint64_t recheck_absent; /* acknowledged keys */
    uint64_t loaded_absent;  /* loaded keys */
    struct shard_memory memory;
};

/* traffic_options.c: false, with the usage on stderr, where the command line is not usable. */
bool options_read(struct options *o, int argc, char **argv);

/* traffic.c */
void traffic_fail(struct traffic *t, const char *format, ...)
    PRINTF_LIKE(2, 3); /* the first text stays; all stop */
void traffic_denied(struct traffic *t, struct figures *f, const char *code, const char *where);
void traffic_refused(struct traffic *t, struct figures *f, const char *text);
uint64_t traffic_random(uint64_t *state); /* xorshift64*; @state is not 0 */
struct code traffic_known(struct traffic *t, uint64_t *random);

/* Sleep so that @done units since @start_us keep to @per_second (0: no sleep); returns early on stop. */
void traffic_pace(struct traffic *t, uint64_t start_us, uint64_t done, double per_second);

/* traffic_create.c, traffic_check.c, traffic_watch.c: threads, of one creator, one checker, the whole
 * traffic. */
void *creator_run(void *arg);
void *checker_run(void *arg);
void *watcher_run(void *arg);

/* Ask for every acknowledged and every loaded key once more; counts what is denied. */
MUST_CHECK enum err traffic_recheck(struct traffic *t, redisContext *daemon, struct error *e);

/* traffic_report.c: the sums of all threads, the screen, the report. */
struct totals {
    struct figures figures;
    uint64_t acknowledged;
};
void totals_take(const struct traffic *t, struct totals *out);
void screen_draw(struct traffic *t, bool terminal);
/* True if every promise held. */
bool report_print(const struct traffic *t);
MUST_CHECK enum err report_write(const struct traffic *t, const char *path, struct error *e);
#endif
