/* SPDX-License-Identifier: MIT */
/* The happy path is: each reader takes a range, reads it page by page, and takes the next one until none is
 * left. Possible failure modes are: a page fails (its reader ends with the error and the others are told to
 * stop; the range remains among those left); the owner stops the readers (the watch of a connection cancels
 * the statement under way). One lock guards what they share. It is held briefly, and released while a table
 * is cut into ranges. */
#include "migrate/source/readers.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    PAGE_FIRST = 10 * 1000, /* rows of the first page; later pages adapt by time */
    PAGE_LEAST = 100,
    BLOCKS_FIRST = 128,
    BLOCKS_MAX = 128 * 1024,
    PARTS_A_READER = 2, /* ranges of one table per reader, so that nobody waits long for the last one */
    NAP_MS = 100,
    FULL_NAP_MS = 5,
    REPLAY_NAP_US = 20 * 1000,
    NICE = 10 /* clients' requests get the processor first */
};

struct range {
    enum { FREE, WAITING, TAKEN } state;
    struct scan_range at;
};

struct reader {
    struct readers *all;
    pthread_t thread;
    unsigned index;
    struct source *source;
    size_t limit;                 /* rows of the next page */
    struct readers_progress page; /* counts of the page under way */
};

struct readers {
    struct readers_options o;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct range ranges[READERS_RANGES_MAX];
    unsigned next_table;
    bool cutting; /* a reader is about to add the ranges of next_table */
    struct readers_progress progress;
    double rate;         /* rows per second; 0: no limit */
    uint64_t allowed_us; /* monotonic time, us: the rate allows no page before */
    unsigned at_once;
    unsigned in_page, running, started;
    unsigned opening, opened; /* readers that connect, and that have connected */
    unsigned left_out;        /* readers that are not let in, for the reason below */
    struct error why_left_out;
    bool resting;
    atomic_bool stop;
    enum err code;
    struct error error;
    struct reader reader[READERS_MAX];
};

/* --- waiting, called with the lock held --- */

static void wait_for_change(struct readers *r, unsigned ms)
{
    const struct timespec until = clock_mono_after((uint64_t)ms * 1000);
    (void)pthread_cond_clockwait(&r->changed, &r->lock, CLOCK_MONOTONIC, &until);
}

static void fail(struct readers *r, enum err code, const struct error *e)
{
    if (r->code == ERR_OK && code != ERR_OK) {
        r->code = code;
        r->error = *e;
    }
    atomic_store(&r->stop, true);
    (void)pthread_cond_broadcast(&r->changed);
}

/* Lets a wait for Postgres end when the readers must stop. */
static enum err watch(void *arg, struct error *e)
{
    const struct reader *me = arg;
    return atomic_load(&me->all->stop) ? error_set(e, ERR_CANCELLED, "stopped") : ERR_OK;
}

/* --- ranges --- */

/* There is always room: a table is cut only when no range waits, into at most two ranges per reader. */
static void add_range(struct readers *r, const struct scan_range *at)
{
    for (size_t i = 0; i < READERS_RANGES_MAX; i++)
        if (r->ranges[i].state == FREE) {
            r->ranges[i] = (struct range){.state = WAITING, .at = *at};
            r->ranges[i].at.blocks = r->o.work.blocks;
            return;
        }
    abort();
}

static void add_part(struct readers *r, unsigned table, const char *after, const char *upto)
{
    struct scan_range at = {.table = table};
    (void)snprintf(at.after, sizeof(at.after), "%s", after);
    (void)snprintf(at.upto, sizeof(at.upto), "%s", upto);
    add_range(r, &at);
}

static void add_blocks(struct readers *r, unsigned part, unsigned parts)
{
    uint64_t blocks = r->o.work.parts[part].blocks;
    if (r->o.work.parts[part].file[0] == '\0') {
        add_part(r, part, "0", "");
        return;
    }
    if (parts > (blocks + BLOCKS_FIRST - 1) / BLOCKS_FIRST)
        parts = (unsigned)((blocks + BLOCKS_FIRST - 1) / BLOCKS_FIRST);
    for (unsigned i = 0; i < parts; i++) {
        char from[24], to[24];
        (void)snprintf(from, sizeof(from), "%llu", (unsigned long long)(blocks * i / parts));
        (void)snprintf(to, sizeof(to), "%llu", (unsigned long long)(blocks * (i + 1) / parts));
        add_part(r, part, from, to);
    }
}

/* Cut the next table into ranges. The lock is released while Postgres is asked for ids to cut at. */
static enum err cut_table(struct reader *me, struct error *e)
{
    struct readers *r = me->all;
    unsigned table = r->next_table, parts = PARTS_A_READER * r->o.count, count = 0;
    enum err code = ERR_OK;
    if (r->o.count == 1)
        parts = 1;
    if (r->o.work.blocks) {
        add_blocks(r, table, parts);
    } else {
        char(*ids)[SOURCE_ID_MAX] = calloc(parts, sizeof(*ids));
        const char *upto = r->o.work.upto == NULL ? "" : r->o.work.upto[table];
        r->cutting = true;
        (void)pthread_mutex_unlock(&r->lock);
        code = ids == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                           : source_split(me->source, table, parts, ids, &count, e);
        (void)pthread_mutex_lock(&r->lock);
        r->cutting = false;
        for (unsigned i = 0; i <= count && code == ERR_OK; i++)
            add_part(r, table, i == 0 ? "" : ids[i - 1], i == count ? upto : ids[i]);
        free(ids);
    }
    if (code == ERR_OK)
        r->next_table++;
    (void)pthread_cond_broadcast(&r->changed);
    return code;
}

/* Take a range that no reader has. NULL: no range is left, or the reader must stop. */
static struct range *take_range(struct reader *me, enum err *code, struct error *e)
{
    struct readers *r = me->all;
    while (*code == ERR_OK && !atomic_load(&r->stop)) {
        for (size_t i = 0; i < READERS_RANGES_MAX; i++)
            if (r->ranges[i].state == WAITING) {
                r->ranges[i].state = TAKEN;
                return &r->ranges[i];
            }
        if (r->cutting)
            wait_for_change(r, NAP_MS);
        else if (r->next_table == r->o.work.tables)
            return NULL;
        else
            *code = cut_table(me, e);
    }
    return NULL;
}

/* --- pages --- */

static void on_row(void *arg, const char *key, size_t length)
{
    struct reader *me = arg;
    me->page.rows++;
    if (key == NULL)
        me->page.skipped_null++;
    else
        me->all->o.row(me->all->o.arg, me->index, key, length);
}

/* Wait until a page may begin. False: the reader must stop. */
static bool may_begin(struct readers *r)
{
    while (!atomic_load(&r->stop)) {
        uint64_t now = clock_mono_us();
        bool full = r->o.is_full != NULL && r->o.is_full(r->o.arg);
        bool waits = full || r->resting || r->in_page >= r->at_once;
        if (!waits && (r->rate <= 0 || now >= r->allowed_us)) {
            r->in_page++;
            return true;
        }
        uint64_t left = full ? FULL_NAP_MS : waits ? NAP_MS : (r->allowed_us - now) / 1000 + 1;
        wait_for_change(r, left < NAP_MS ? (unsigned)left : NAP_MS);
    }
    return false;
}

/* Adapt the page's size towards the target time. */
static void adapt(struct reader *me, double ms)
{
    const struct readers_options *o = &me->all->o;
    double wanted = ms <= 0 ? 2 : (double)o->page_ms / ms;
    double limit = (double)me->limit * (wanted > 2 ? 2 : wanted < 0.25 ? 0.25 : wanted);
    double most = o->work.blocks ? BLOCKS_MAX : (double)o->page_rows;
    double least = o->work.blocks ? 1 : PAGE_LEAST;
    limit = limit < least ? least : limit;
    me->limit = (size_t)(limit > most ? most : limit);
}

static void count_page(struct reader *me, double ms, bool whole)
{
    struct readers *r = me->all;
    r->progress.rows += me->page.rows;
    r->progress.skipped_null += me->page.skipped_null;
    r->progress.page_ms = ms;
    if (r->rate > 0) {
        uint64_t now = clock_mono_us();
        uint64_t from = r->allowed_us > now ? r->allowed_us : now;
        r->allowed_us = from + (uint64_t)((double)me->page.rows * 1e6 / r->rate);
    }
    if (whole)
        adapt(me, ms);
}

/* Under a rate limit a page has at most the rows of a fifth of a second. For blocks: as many blocks as hold
 * about that many rows. */
static size_t page_limit(const struct reader *me)
{
    enum { ROWS_A_BLOCK = 100 };
    const struct readers *r = me->all;
    double most = (double)me->limit, unit = r->o.work.blocks ? ROWS_A_BLOCK : 1;
    if (r->rate > 0 && most > r->rate / 5 / r->o.count / unit)
        most = r->rate / 5 / r->o.count / unit;
    return most < 1 ? 1 : (size_t)most;
}

/* Read one page with the lock released. The range advances after the consumer has taken all rows. */
static enum err read_page(struct reader *me, struct range *range, bool *ended, struct error *e)
{
    struct readers *r = me->all;
    const struct readers_options *o = &r->o;
    struct scan_range at = range->at;
    const struct scan_options options = {.limit = page_limit(me),
                                         .parts = o->work.parts,
                                         .newer = o->work.newer,
                                         .timeout_ms = o->timeout_ms,
                                         .row = on_row,
                                         .arg = me};
    size_t rows = 0;
    me->page = (struct readers_progress){.rows = 0};
    (void)pthread_mutex_unlock(&r->lock);
    uint64_t began = clock_mono_us();
    enum err code = scan_page(me->source, &at, &options, &rows, ended, e);
    uint64_t took = clock_mono_us() - began;
    double ms = (double)took / 1000;
    if (o->timing != NULL && code == ERR_OK)
        timing_record_shared(o->timing, took);
    if (code == ERR_OK)
        code = o->page(o->arg, me->index, e);
    (void)pthread_mutex_lock(&r->lock);
    if (code == ERR_OK) {
        range->at = at;
        count_page(me, ms, options.limit == me->limit);
    }
    return code;
}

static enum err read_range(struct reader *me, struct range *range, struct error *e)
{
    struct readers *r = me->all;
    bool ended = false;
    enum err code = ERR_OK;
    while (code == ERR_OK && !ended && may_begin(r)) {
        code = read_page(me, range, &ended, e);
        r->in_page--;
        (void)pthread_cond_broadcast(&r->changed);
    }
    if (ended && code == ERR_OK)
        range->state = FREE;
    return code;
}

enum err readers_not_replayed(const char *dsn, const struct source_replay *replay, struct error *e)
{
    const char *which = dsn == NULL || dsn[0] == '\0' ? "dsn leads to several servers" : "read_dsn";
    return error_set(e, ERR_TIMEOUT, "%s: %s", which, replay->why);
}

/* Each connection may lead to another server. */
static enum err await_replay(struct reader *me, struct error *e)
{
    const struct readers_options *o = &me->all->o;
    struct source_replay replay;
    uint64_t deadline = clock_mono_us() + (uint64_t)o->timeout_ms * 1000;
    if (o->barrier == NULL || o->barrier[0] == '\0')
        return ERR_OK;
    for (;;) {
        enum err code = source_has_replayed(me->source, o->barrier, &replay, e);
        if (code != ERR_OK || replay.there)
            return code;
        if (replay.foreign || clock_mono_us() > deadline)
            return readers_not_replayed(o->dsn, &replay, e);
        code = watch(me, e);
        if (code != ERR_OK)
            return code;
        clock_sleep_us(REPLAY_NAP_US);
    }
}

/* The server may let fewer in than are wanted: those that are connected read all. *@others_read: this reader
 * is not one of them. */
static enum err open_source(struct reader *me, bool *others_read, struct error *e)
{
    struct readers *r = me->all;
    const struct source_watch w = {watch, me};
    enum err code = source_open_another(&me->source, r->o.source, r->o.dsn, "twinbloom reader", w, e);
    HOLD(&r->lock);
    r->opening--;
    r->opened += code == ERR_OK;
    (void)pthread_cond_broadcast(&r->changed);
    while (code == ERR_UNREACHABLE && r->opened == 0 && r->opening > 0 && !atomic_load(&r->stop))
        wait_for_change(r, NAP_MS);
    *others_read = code == ERR_UNREACHABLE && r->opened > 0;
    if (*others_read && !atomic_load(&r->stop)) {
        r->left_out++;
        r->why_left_out = *e;
    }
    return code;
}

static void *run(void *arg)
{
    struct reader *me = arg;
    struct readers *r = me->all;
    struct error e = {.text = ""};
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    bool others_read;
    enum err code = open_source(me, &others_read, &e);
    if (code == ERR_OK)
        code = await_replay(me, &e);
    if (code == ERR_OK && r->o.work.snapshot != NULL)
        code = source_snapshot_join(me->source, r->o.work.snapshot, &e);
    (void)pthread_mutex_lock(&r->lock);
    struct range *range;
    while (code == ERR_OK && (range = take_range(me, &code, &e)) != NULL)
        code = read_range(me, range, &e);
    if (code != ERR_OK && !others_read)
        fail(r, code, &e);
    r->running--;
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
    source_drop(&me->source);
    return NULL;
}

/* --- interface --- */

static enum err start_threads(struct readers *r, struct error *e)
{
    r->opening = r->o.count;
    for (unsigned i = 0; i < r->o.count; i++) {
        struct reader *me = &r->reader[i];
        me->all = r;
        me->index = i;
        me->limit = r->o.work.blocks              ? BLOCKS_FIRST
                    : r->o.page_rows < PAGE_FIRST ? r->o.page_rows
                                                  : PAGE_FIRST;
        (void)pthread_mutex_lock(&r->lock);
        r->running++;
        (void)pthread_mutex_unlock(&r->lock);
        if (pthread_create(&me->thread, NULL, run, me) != 0) {
            (void)pthread_mutex_lock(&r->lock);
            r->running--;
            (void)pthread_mutex_unlock(&r->lock);
            return error_set(e, ERR_NOMEM, "no thread for a reader");
        }
        r->started++;
    }
    return ERR_OK;
}

enum err readers_start(struct readers **out, const struct readers_options *o, struct error *e)
{
    if (o->work.range_count > READERS_RANGES_MAX)
        return error_set(e, ERR_RANGE, "readers: %zu ranges; %d are supported", o->work.range_count,
                         (int)READERS_RANGES_MAX);
    struct readers *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    r->o = *o;
    if (r->o.count < 1)
        r->o.count = 1;
    if (r->o.count > READERS_MAX)
        r->o.count = READERS_MAX;
    r->next_table = o->work.next_table;
    r->rate = o->rows_per_second;
    r->at_once = o->at_once == 0 ? UINT_MAX : o->at_once;
    for (size_t i = 0; i < o->work.range_count; i++)
        add_range(r, &o->work.ranges[i]);
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->changed, NULL);
    enum err code = start_threads(r, e);
    if (code != ERR_OK) {
        readers_stop(r);
        return code;
    }
    *out = r;
    return ERR_OK;
}

void readers_stop(struct readers *r)
{
    if (r == NULL)
        return;
    atomic_store(&r->stop, true);
    (void)pthread_mutex_lock(&r->lock);
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
    for (unsigned i = 0; i < r->started; i++)
        (void)pthread_join(r->reader[i].thread, NULL);
    (void)pthread_cond_destroy(&r->changed);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

bool readers_ended(struct readers *r, unsigned wait_ms, enum err *code, struct error *e)
{
    HOLD(&r->lock);
    if (r->running > 0 && wait_ms > 0)
        wait_for_change(r, wait_ms);
    bool ended = r->running == 0;
    *code = r->code;
    if (ended && r->code != ERR_OK)
        *code = error_set(e, r->code, "%s", r->error.text);
    return ended;
}

void readers_progress(struct readers *r, struct readers_progress *out)
{
    HOLD(&r->lock);
    *out = r->progress;
}

unsigned readers_left_out(struct readers *r, struct error *why)
{
    HOLD(&r->lock);
    unsigned count = r->left_out;
    *why = r->why_left_out;
    return count;
}

size_t readers_left(struct readers *r, unsigned *next_table, struct scan_range ranges[READERS_RANGES_MAX],
                    struct readers_progress *done)
{
    size_t n = 0;
    HOLD(&r->lock);
    if (done != NULL)
        *done = r->progress;
    *next_table = r->next_table;
    for (size_t i = 0; i < READERS_RANGES_MAX; i++)
        if (r->ranges[i].state != FREE)
            ranges[n++] = r->ranges[i].at;
    return n;
}

void readers_pace(struct readers *r, double rows_per_second, unsigned at_once)
{
    HOLD(&r->lock);
    if (rows_per_second != r->rate)
        r->allowed_us = clock_mono_us();
    r->rate = rows_per_second;
    r->at_once = at_once == 0 ? UINT_MAX : at_once;
    (void)pthread_cond_broadcast(&r->changed);
}

bool readers_rest(struct readers *r)
{
    HOLD(&r->lock);
    r->resting = true;
    return r->in_page == 0;
}

void readers_go_on(struct readers *r)
{
    HOLD(&r->lock);
    r->resting = false;
    (void)pthread_cond_broadcast(&r->changed);
}
