/* SPDX-License-Identifier: MIT */
/* traffic: live traffic on a short-link table and its filter through the first build and further rebuilds.
 * The happy path: learn the loaded codes; start watcher, checkers and creators; wait for the rebuild that
 * the daemon starts by itself; then, as often as asked, some seconds of calm, the bare keyset scan as a
 * yardstick, and a rebuild on command; stop, ask for every key again, report. Possible failure modes are:
 * a connection lost, a job failed, the deadline, an interrupt: all end the traffic, and the report says what
 * happened. */
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/random.h"
#include "deploy/traffic.h"

enum {
    PAGE_ROWS = 10000,
    DRAW_TERMINAL_US = 250000,
    DRAW_PLAIN_US = 1000000,
    TICK_US = 50000,
    DENIED_SHOWN_MAX = 10,
    DAEMON_PATIENCE_US = 30000000
};

static volatile sig_atomic_t signalled;

static void on_signal(int number)
{
    (void)number;
    signalled = 1;
}

void traffic_fail(struct traffic *t, const char *format, ...)
{
    char text[sizeof(t->failure)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)pthread_mutex_lock(&t->lock);
    if (!t->failed)
        memcpy(t->failure, text, sizeof(text));
    t->failed = true;
    (void)pthread_mutex_unlock(&t->lock);
    atomic_store(&t->stop, true);
}

void traffic_denied(struct traffic *t, struct figures *f, const char *code, const char *where)
{
    tally(&f->denied, 1);
    (void)pthread_mutex_lock(&t->lock);
    if (t->denied_shown++ < DENIED_SHOWN_MAX)
        (void)fprintf(stderr, "\nBROKEN PROMISE: known key %s was denied %s, phase %s, epoch %llu\n", code,
                      where, t->status.phase, (unsigned long long)t->status.epoch);
    (void)pthread_mutex_unlock(&t->lock);
}

void traffic_refused(struct traffic *t, struct figures *f, const char *text)
{
    tally(&f->refused, 1);
    if (f->refused > 3)
        return;
    (void)pthread_mutex_lock(&t->lock);
    (void)fprintf(stderr, "\nerror reply: %s\n", text);
    (void)pthread_mutex_unlock(&t->lock);
}

uint64_t traffic_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(2685821657736338717);
}

/* Two of three are loaded rows; the others were just acknowledged by some creator, half of these among the
 * newest 64. */
struct code traffic_known(struct traffic *t, uint64_t *random)
{
    uint64_t dice = traffic_random(random);
    const struct creator *c = &t->creator[(dice >> 8) % t->creator_count];
    size_t n = atomic_load_explicit(&c->acknowledged_count, memory_order_acquire);
    if (n == 0 || (t->loaded_count > 0 && dice % 3 != 0))
        return t->loaded_count > 0 ? t->loaded[traffic_random(random) % t->loaded_count]
                                   : code_of(CREATED_FROM - 1);
    size_t span = (dice >> 4) % 2 == 0 && n > 64 ? 64 : n;
    return c->acknowledged[n - 1 - traffic_random(random) % span];
}

void traffic_pace(struct traffic *t, uint64_t start_us, uint64_t done, double per_second)
{
    if (per_second <= 0)
        return;
    uint64_t due = start_us + (uint64_t)((double)done / per_second * 1e6);
    uint64_t now;
    while ((now = clock_mono_us()) < due && !atomic_load_explicit(&t->stop, memory_order_relaxed))
        clock_sleep_us(due - now < TICK_US ? due - now : TICK_US);
}

struct loading {
    struct code *codes;
    size_t count, capacity;
    bool failed;
};

static void load_row(void *arg, const char *code, size_t length)
{
    struct loading *l = arg;
    if (length != CODE_LENGTH || l->failed)
        return;
    if (l->count == l->capacity) {
        l->capacity = l->capacity == 0 ? 1 << 16 : l->capacity * 2;
        struct code *grown = realloc(l->codes, l->capacity * sizeof(*grown));
        if (grown == NULL) {
            l->failed = true;
            return;
        }
        l->codes = grown;
    }
    memcpy(l->codes[l->count].text, code, CODE_LENGTH);
    l->codes[l->count].text[CODE_LENGTH] = '\0';
    l->count++;
}

static enum err load(struct traffic *t, PGconn *pg, struct error *e)
{
    struct loading l = {0};
    struct keyset_result result;
    enum err err = keyset_copy(pg, load_row, &l, &result, e);
    t->loaded = l.codes;
    t->loaded_count = l.count;
    if (err == ERR_OK && l.failed)
        err = error_set(e, ERR_NOMEM, "no memory for the table's codes");
    if (err == ERR_OK && l.count == 0)
        err = error_set(e, ERR_NOT_FOUND, "short_link holds no live rows: load some first");
    return err;
}

static enum err connect_postgres(const struct traffic *t, PGconn **out, struct error *e)
{
    *out = PQconnectdb(t->options.postgres);
    if (PQstatus(*out) == CONNECTION_OK)
        return ERR_OK;
    const char *text = PQerrorMessage(*out);
    return error_set(e, ERR_UNREACHABLE, "Postgres cannot be reached: %.*s", (int)strcspn(text, "\n"), text);
}

static struct figures *figures_new(const struct traffic *t)
{
    struct figures *f = calloc(1, sizeof(*f));
    if (f != NULL)
        f->stalls.start_us = t->start_us;
    return f;
}

static enum err make_creator(struct traffic *t, struct creator *c, struct error *e)
{
    c->traffic = t;
    c->random = random_u64();
    c->figures = figures_new(t);
    c->acknowledged = calloc(ACKNOWLEDGED_MAX, sizeof(*c->acknowledged));
    if (c->figures == NULL || c->acknowledged == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a creator");
    enum err err = connect_postgres(t, &c->pg, e);
    if (err == ERR_OK)
        err = observe_connect(&c->daemon, t->options.daemon_port, REQUEST_TIMEOUT_MS, "the daemon", e);
    return err;
}

static enum err make_checker(struct traffic *t, struct checker *c, struct error *e)
{
    c->traffic = t;
    c->random = random_u64();
    c->figures = figures_new(t);
    if (c->figures == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a checker");
    return observe_connect(&c->daemon, t->options.daemon_port, REQUEST_TIMEOUT_MS, "the daemon", e);
}

/* The daemon may be starting at this moment, and make the filter behind that: traffic that waits for both
 * sees the first build from its beginning. */
static enum err wait_for_filter(struct traffic *t, struct error *e)
{
    uint64_t until = clock_mono_us() + DAEMON_PATIENCE_US;
    struct status s;
    enum err err;
    do {
        err = t->watched == NULL
                  ? observe_connect(&t->watched, t->options.daemon_port, REQUEST_TIMEOUT_MS, "the daemon", e)
                  : ERR_OK;
        if (err == ERR_OK)
            err = observe_status(t->watched, t->options.filter, &s, e);
        if (err == ERR_UNREACHABLE) {
            redisFree(t->watched); /* fine with NULL */
            t->watched = NULL;
        }
        if (err != ERR_OK)
            clock_sleep_us(TICK_US / 5);
    } while (err != ERR_OK && err != ERR_NOMEM && clock_mono_us() < until && !signalled);
    return err;
}

/* Everything is made before anything runs, so that the threads find all places filled. */
static enum err prepare(struct traffic *t, struct error *e)
{
    enum err err = wait_for_filter(t, e);
    t->start_us = clock_mono_us();
    for (unsigned i = 0; err == ERR_OK && i < t->options.creators; i++) {
        err = make_creator(t, &t->creator[i], e);
        t->creator_count += err == ERR_OK;
    }
    for (unsigned i = 0; err == ERR_OK && i < t->options.checkers; i++) {
        err = make_checker(t, &t->checker[i], e);
        t->checker_count += err == ERR_OK;
    }
    return err;
}

static void start_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    int error = pthread_create(thread, NULL, run, arg);
    if (error != 0) {
        (void)fprintf(stderr, "traffic: a thread cannot be started: %s\n", strerror(error));
        exit(1);
    }
}

static void start_threads(struct traffic *t)
{
    start_thread(&t->watcher, watcher_run, t);
    for (unsigned i = 0; i < t->checker_count; i++)
        start_thread(&t->checker[i].thread, checker_run, &t->checker[i]);
    for (unsigned i = 0; i < t->creator_count; i++)
        start_thread(&t->creator[i].thread, creator_run, &t->creator[i]);
}

static void join_threads(struct traffic *t)
{
    atomic_store(&t->stop, true);
    for (unsigned i = 0; i < t->creator_count; i++)
        (void)pthread_join(t->creator[i].thread, NULL);
    for (unsigned i = 0; i < t->checker_count; i++)
        (void)pthread_join(t->checker[i].thread, NULL);
    (void)pthread_join(t->watcher, NULL);
}

/* One tick of the main thread: deadline, interrupt, screen. False: it is over. */
static bool tick(struct traffic *t, bool terminal)
{
    static uint64_t drawn_us;
    uint64_t now = clock_mono_us();
    if (signalled) {
        atomic_store(&t->interrupted, true);
        traffic_fail(t, "interrupted");
    }
    if (now - t->start_us > (uint64_t)t->options.deadline_seconds * 1000000)
        traffic_fail(t, "the deadline of %u s passed after %u of %u rebuilds", t->options.deadline_seconds,
                     atomic_load(&t->done), t->options.expansions);
    if (now - drawn_us > (terminal ? DRAW_TERMINAL_US : DRAW_PLAIN_US)) {
        screen_draw(t, terminal);
        drawn_us = now;
    }
    if (atomic_load(&t->stop))
        return false;
    clock_sleep_us(TICK_US);
    return true;
}

static bool wait_done(struct traffic *t, unsigned expansions, bool terminal)
{
    while (atomic_load(&t->done) < expansions)
        if (!tick(t, terminal))
            return false;
    return true;
}

static bool wait_built(struct traffic *t, bool terminal)
{
    while (atomic_load(&t->moment) == MOMENT_UNBUILT)
        if (!tick(t, terminal))
            return false;
    return true;
}

static bool wait_seconds(struct traffic *t, unsigned seconds, bool terminal)
{
    uint64_t until = clock_mono_us() + (uint64_t)seconds * 1000000;
    while (clock_mono_us() < until)
        if (!tick(t, terminal))
            return false;
    return true;
}

struct bare_scan {
    PGconn *pg;
    struct keyset_result result;
    struct error error;
    enum err err;
    _Atomic bool over;
};

static void *bare_scan_run(void *arg)
{
    struct bare_scan *b = arg;
    b->err = keyset_scan(b->pg, PAGE_ROWS, &b->result, &b->error);
    atomic_store(&b->over, true);
    return NULL;
}

static bool measure_bare_scan(struct traffic *t, PGconn *pg, bool terminal)
{
    struct bare_scan b = {.pg = pg};
    pthread_t thread;
    start_thread(&thread, bare_scan_run, &b);
    while (!atomic_load(&b.over) && tick(t, terminal))
        ;
    (void)pthread_join(thread, NULL);
    if (b.err != ERR_OK)
        traffic_fail(t, "the bare keyset scan: %s", b.error.text);
    else
        t->bare_scan = b.result;
    return b.err == ERR_OK && !atomic_load(&t->stop);
}

/* Run the command that asks for an expansion, and see it through. */
static bool expand(struct traffic *t, unsigned wanted, bool terminal)
{
    char shell[] = "/bin/sh";
    char option[] = "-c";
    char *command = strdup(t->options.expand_command);
    char *argv[] = {shell, option, command, NULL};
    pid_t pid;
    int error = command == NULL ? -1 : posix_spawn(&pid, shell, NULL, NULL, argv, environ);
    free(command);
    if (error != 0) {
        traffic_fail(t, "the command for a rebuild cannot be started");
        return false;
    }
    int status = 0;
    pid_t ended = 0;
    bool running = true;
    while (running && (ended = waitpid(pid, &status, WNOHANG)) == 0)
        running = tick(t, terminal);
    if (ended == 0) {
        (void)kill(pid, SIGTERM);
        (void)waitpid(pid, &status, 0);
        return false;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        traffic_fail(t, "the command for a rebuild failed: %s", t->options.expand_command);
        return false;
    }
    return wait_done(t, wanted, terminal);
}

static void scenario(struct traffic *t, PGconn *pg)
{
    bool terminal = isatty(STDOUT_FILENO) == 1;
    bool going = t->options.expansions == 0
                     ? wait_built(t, terminal) && wait_seconds(t, t->options.steady_seconds, terminal)
                     : wait_done(t, 1, terminal);
    for (unsigned n = 2; going && n <= t->options.expansions; n++)
        going = wait_seconds(t, t->options.steady_seconds, terminal) && measure_bare_scan(t, pg, terminal) &&
                expand(t, n, terminal);
    if (going)
        (void)wait_seconds(t, 1, terminal);
    screen_draw(t, terminal);
    t->end_us = clock_mono_us();
}

/* After the traffic: every key once more, and the memory of the generation in use. */
static void aftermath(struct traffic *t)
{
    struct error e;
    enum err err = traffic_recheck(t, t->watched, &e);
    struct status s;
    if (err == ERR_OK)
        err = observe_status(t->watched, t->options.filter, &s, &e);
    if (err == ERR_OK)
        t->status = s;
    for (unsigned i = 0; err == ERR_OK && i < t->options.nodes; i++) {
        redisContext *node = NULL;
        err = observe_connect(&node, t->options.node[i], REQUEST_TIMEOUT_MS, "Redis", &e);
        if (err == ERR_OK)
            err = observe_shards(node, t->options.prefix, t->options.filter, s.generation, &t->memory, &e);
        redisFree(node);
    }
    if (err == ERR_OK && t->options.nodes > 0 && t->memory.shards == 0)
        err = error_set(&e, ERR_NOT_FOUND, "Redis holds no shard of generation %llu",
                        (unsigned long long)s.generation);
    if (err != ERR_OK)
        traffic_fail(t, "%s", e.text);
}

static void finish(struct traffic *t)
{
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        PQfinish(t->creator[i].pg);
        redisFree(t->creator[i].daemon);
        free(t->creator[i].acknowledged);
        free(t->creator[i].figures);
        redisFree(t->checker[i].daemon);
        free(t->checker[i].figures);
    }
    redisFree(t->watched);
    free(t->loaded);
}

static int run(struct traffic *t)
{
    struct error e;
    PGconn *pg = NULL;
    atomic_store(&t->next_counter, CREATED_FROM + random_u64() % (CREATED_TO - CREATED_FROM));
    enum err err = connect_postgres(t, &pg, &e);
    if (err == ERR_OK)
        err = load(t, pg, &e);
    if (err == ERR_OK)
        err = prepare(t, &e);
    bool ok = false;
    if (err != ERR_OK) {
        (void)fprintf(stderr, "traffic: %s\n", e.text);
    } else {
        start_threads(t);
        scenario(t, pg);
        join_threads(t);
        if (!atomic_load(&t->interrupted))
            aftermath(t);
        ok = report_print(t);
        if (t->options.report != NULL && report_write(t, t->options.report, &e) != ERR_OK) {
            (void)fprintf(stderr, "traffic: %s\n", e.text);
            ok = false;
        }
    }
    PQfinish(pg);
    finish(t);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct traffic t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    if (!options_read(&t.options, argc, argv))
        return 2;
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return run(&t);
}
