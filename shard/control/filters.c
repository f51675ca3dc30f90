/* SPDX-License-Identifier: MIT */
#include "shard/control/filters.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include <xxhash.h>
#include "base/clock.h"
#include "base/mailbox.h"
#include "shard/redis/ahead.h"

enum { BUCKETS = 4096, FREE_AGAIN_US = 10 * 1000, LEAVE_AGAIN_US = 5 * 1000, WAIT_MAX_US = 60 * 1000 * 1000 };
/* Looks that are made together: how many at most, among how many filters, and how early. */
enum { GROUP_MAX = 32, GROUP_OF = 128, GROUP_US = 200 * 1000 };

/* A thread that tends controls, one at a time. */
struct maintainer {
    struct filters *filters;
    pthread_t thread;
    bool is_started;
    struct event_base *base;
    struct mailbox *mailbox;
    struct event *letters;
    struct sync_client *redis;
    struct control_thread *controls;
    TAILQ_HEAD(, open_filter) filter; /* first who was tended longest ago */
    unsigned leave_ms;                /* set by the thread that stops it */
    uint64_t leave_until; /* monotonic us, set by the maintainer's thread; 0: it is not stopping */
};

struct open_filter {
    struct maintainer *maintainer;
    TAILQ_ENTRY(open_filter) of_maintainer;
    struct open_filter *next; /* in the bucket */
    struct log_filter *log;
    pthread_mutex_t reading; /* taken before the filters' lock */
    struct control *control; /* belongs to the maintainer's thread; whoever reads its status holds @reading */
    struct event *timer;
    atomic_uint references; /* by workers; taking the first one, and reading 0, need the filters' lock */
    bool is_listed;         /* guarded by the filters' lock: the name leads to it */
    atomic_bool is_woken;   /* a task is under way, which keeps it from being freed */
    uint64_t since;         /* monotonic us: when it was opened */
    size_t length;
    char name[];
};

struct filters {
    struct filters_options options;
    struct budget budget;
    pthread_mutex_t lock;
    struct open_filter *bucket[BUCKETS];
    atomic_uint ended;             /* controls that have ended since the process began */
    struct maintainer *maintainer; /* options.threads of them */
};

/* --- the table of names --- */

static struct open_filter **bucket_of(struct filters *fs, const char *name, size_t length)
{
    return &fs->bucket[XXH3_64bits(name, length) % BUCKETS];
}

static struct open_filter *look_up(struct filters *fs, const char *name, size_t length)
{
    struct open_filter *f = *bucket_of(fs, name, length);
    while (f != NULL && (f->length != length || memcmp(f->name, name, length) != 0))
        f = f->next;
    return f;
}

/* Under the lock. */
static void unlist(struct open_filter *f)
{
    struct open_filter **at = bucket_of(f->maintainer->filters, f->name, f->length);
    if (!f->is_listed)
        return;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    f->is_listed = false;
}

/* --- tending --- */

static void tend(evutil_socket_t fd, short events, void *arg);

static void tend_at(struct open_filter *f, uint64_t at)
{
    uint64_t now = clock_mono_us(), wait = at > now ? at - now : 0;
    wait = wait < WAIT_MAX_US ? wait : WAIT_MAX_US;
    const struct timeval in = {(time_t)(wait / 1000000), (suseconds_t)(wait % 1000000)};
    if (evtimer_add(f->timer, &in) != 0) /* no memory: tend it at once, and again */
        event_active(f->timer, EV_TIMEOUT, 0);
}

static void on_task(void *arg)
{
    struct open_filter *f = arg;
    atomic_store(&f->is_woken, false); /* a later wake posts another task */
    tend_at(f, 0);
}

/* From any thread, as long as the filter is not freed. */
static void wake(void *arg)
{
    struct open_filter *f = arg;
    if (!atomic_exchange(&f->is_woken, true) && mailbox_post(f->maintainer->mailbox, on_task, f) != ERR_OK)
        atomic_store(&f->is_woken, false); /* no memory: it is tended when it is due */
}

/* End the control. Callers that open the name from now on get another filter. */
static void end(struct open_filter *f)
{
    struct filters *fs = f->maintainer->filters;
    (void)pthread_mutex_lock(&f->reading);
    struct control *control = f->control;
    f->control = NULL;
    (void)pthread_mutex_unlock(&f->reading);
    (void)pthread_mutex_lock(&fs->lock);
    unlist(f);
    (void)pthread_mutex_unlock(&fs->lock);
    control_free(control);
    atomic_fetch_add(&fs->ended, 1);
}

/* False: a caller has it open, a lane of it is being read, or a task for it is under way. */
static bool free_if_unused(struct open_filter *f)
{
    struct filters *fs = f->maintainer->filters;
    (void)pthread_mutex_lock(&fs->lock);
    bool used = atomic_load(&f->references) > 0; /* it is not listed, so no caller can open it any more */
    (void)pthread_mutex_unlock(&fs->lock);
    if (used || !log_filter_free(f->log))
        return false;
    f->log = NULL; /* nobody can wake it any more */
    if (atomic_load(&f->is_woken))
        return false;
    TAILQ_REMOVE(&f->maintainer->filter, f, of_maintainer);
    event_free(f->timer);
    (void)pthread_mutex_destroy(&f->reading);
    free(f);
    return true;
}

/* Leave the filter, as the process ends. */
static void leave(struct open_filter *f)
{
    struct error e;
    enum err code = control_leave(f->control, &e);
    if (code != ERR_OK && code != ERR_NOT_FOUND && clock_mono_us() < f->maintainer->leave_until)
        tend_at(f, clock_mono_us() + LEAVE_AGAIN_US);
    else
        end(f);
}

static void tend_one(struct open_filter *f)
{
    struct error e = {""};
    uint64_t next = 0;
    TAILQ_REMOVE(&f->maintainer->filter, f, of_maintainer);
    TAILQ_INSERT_TAIL(&f->maintainer->filter, f, of_maintainer);
    if (f->control != NULL && f->maintainer->leave_until != 0) {
        leave(f);
    } else if (f->control != NULL) {
        enum err code = control_tend(f->control, &next, &e);
        if (code != ERR_OK && log_filter_is_closed(f->log))
            end(f);
        else
            tend_at(f, next);
    }
    if (f->control != NULL)
        return;
    struct maintainer *t = f->maintainer;
    if (!free_if_unused(f))
        tend_at(f, clock_mono_us() + FREE_AGAIN_US);
    else if (t->leave_until != 0 && TAILQ_EMPTY(&t->filter))
        (void)event_base_loopbreak(t->base);
}

/* Ask ahead for what the looks at @first and at other filters read that are due, or nearly so: they wait for
 * the same nodes. Returns their number, and *@group. */
static unsigned ask_ahead(struct open_filter *first, struct open_filter *group[GROUP_MAX])
{
    struct maintainer *t = first->maintainer;
    unsigned count = 1, seen = 0;
    uint64_t at = clock_mono_us() + GROUP_US;
    if (first->control == NULL || t->leave_until != 0 || !control_only_looks(first->control, at) ||
        !ahead_begin(t->redis))
        return 0;
    group[0] = first;
    for (struct open_filter *f = TAILQ_FIRST(&t->filter); f != NULL && count < GROUP_MAX && seen < GROUP_OF;
         f = TAILQ_NEXT(f, of_maintainer), seen++)
        if (f != first && f->control != NULL && control_only_looks(f->control, at))
            group[count++] = f;
    for (unsigned i = 0; i < count; i++)
        control_ask_ahead(group[i]->control, i + 1);
    ahead_read(t->redis);
    for (unsigned i = 0; i < count; i++)
        control_ask_masters_ahead(group[i]->control);
    ahead_close(t->redis);
    return count;
}

static void tend(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct open_filter *first = arg, *group[GROUP_MAX];
    struct maintainer *t = first->maintainer;
    unsigned count = ask_ahead(first, group);
    if (count == 0)
        tend_one(first);
    for (unsigned i = 0; i < count; i++)
        tend_one(group[i]);
    if (count > 0)
        ahead_end(t->redis);
}

/* --- a maintainer --- */

static void on_readable(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    mailbox_run(arg);
}

static void *run(void *arg)
{
    struct maintainer *t = arg;
    (void)event_base_loop(t->base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

static void begin_to_leave(void *arg)
{
    struct maintainer *t = arg;
    struct open_filter *f;
    t->leave_until = clock_mono_us() + (uint64_t)t->leave_ms * 1000;
    TAILQ_FOREACH(f, &t->filter, of_maintainer)
    tend_at(f, 0);
    if (TAILQ_EMPTY(&t->filter))
        (void)event_base_loopbreak(t->base);
}

static enum err maintainer_start(struct maintainer *t, struct filters *fs, struct error *e)
{
    t->filters = fs;
    TAILQ_INIT(&t->filter);
    t->base = event_base_new();
    t->mailbox = mailbox_new();
    t->redis = sync_client_new(fs->options.nodes, fs->options.timeout_ms, "twinbloom-filters");
    if (t->base != NULL && t->mailbox != NULL)
        t->letters =
            event_new(t->base, mailbox_fd(t->mailbox), EV_READ | EV_PERSIST, on_readable, t->mailbox);
    t->controls = control_thread_new(fs->options.nodes, fs->options.timeout_ms);
    if (t->redis == NULL || t->controls == NULL || t->letters == NULL || event_add(t->letters, NULL) != 0 ||
        pthread_create(&t->thread, NULL, run, t) != 0)
        return error_set(e, ERR_NOMEM, "a thread could not be started");
    t->is_started = true;
    return ERR_OK;
}

static void maintainer_leave(struct maintainer *t, unsigned timeout_ms)
{
    t->leave_ms = timeout_ms;
    while (t->is_started && mailbox_post(t->mailbox, begin_to_leave, t) != ERR_OK)
        clock_sleep_us(1000);
}

static void maintainer_stop(struct maintainer *t)
{
    if (t->is_started)
        (void)pthread_join(t->thread, NULL);
    if (t->letters != NULL)
        event_free(t->letters);
    mailbox_free(t->mailbox);
    if (t->base != NULL)
        event_base_free(t->base);
    control_thread_free(t->controls);
    sync_client_free(t->redis);
}

enum err filters_new(struct filters **out, const struct filters_options *o, struct error *e)
{
    struct filters *fs = calloc(1, sizeof(*fs));
    if (fs == NULL || (fs->maintainer = calloc(o->threads, sizeof(*fs->maintainer))) == NULL) {
        free(fs);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    fs->options = *o;
    budget_init(&fs->budget, o->memory);
    (void)pthread_mutex_init(&fs->lock, NULL); /* cannot fail, as it sets no attributes */
    enum err code = ERR_OK;
    for (unsigned i = 0; i < o->threads && code == ERR_OK; i++)
        code = maintainer_start(&fs->maintainer[i], fs, e);
    if (code == ERR_OK)
        *out = fs;
    else
        filters_free(fs, 0);
    return code;
}

void filters_free(struct filters *fs, unsigned timeout_ms)
{
    if (fs == NULL)
        return;
    for (unsigned i = 0; i < fs->options.threads; i++) /* all at one time: what they wait for may not come */
        maintainer_leave(&fs->maintainer[i], timeout_ms);
    for (unsigned i = 0; i < fs->options.threads; i++)
        maintainer_stop(&fs->maintainer[i]);
    free(fs->maintainer);
    (void)pthread_mutex_destroy(&fs->lock);
    free(fs);
}

/* --- opening --- */

static void begin(void *arg)
{
    struct open_filter *f = arg;
    TAILQ_INSERT_TAIL(&f->maintainer->filter, f, of_maintainer);
    tend(-1, 0, f);
}

static void discard(struct open_filter *f)
{
    if (f == NULL)
        return;
    control_free(f->control);
    bool freed = log_filter_free(f->log);
    assert(freed); /* no lane was read */
    (void)freed;
    if (f->timer != NULL)
        event_free(f->timer);
    (void)pthread_mutex_destroy(&f->reading);
    free(f);
}

static struct open_filter *open_filter_new(struct filters *fs, const char *name, size_t length,
                                           struct error *e)
{
    struct open_filter *f = calloc(1, sizeof(*f) + length);
    struct names names;
    if (f == NULL) {
        (void)error_set(e, ERR_NOMEM, "out of memory");
        return NULL;
    }
    if (names_init(&names, fs->options.prefix, name, length, e) != ERR_OK) {
        free(f);
        return NULL;
    }
    (void)pthread_mutex_init(&f->reading, NULL); /* cannot fail, as it sets no attributes */
    f->maintainer = &fs->maintainer[XXH3_64bits(name, length) / BUCKETS % fs->options.threads];
    f->since = clock_mono_us();
    f->length = length;
    memcpy(f->name, name, length);
    f->timer = evtimer_new(f->maintainer->base, tend, f);
    f->log = log_filter_new(&names, fs->options.nodes, &fs->budget, wake, f);
    if (f->timer != NULL && f->log != NULL) {
        const struct control_options options = {.filter = f->log,
                                                .redis = f->maintainer->redis,
                                                .thread = f->maintainer->controls,
                                                .owner = fs->options.owner,
                                                .timeout_ms = fs->options.timeout_ms,
                                                .retain_us = fs->options.retain_us,
                                                .log_max = fs->options.log_max,
                                                .clean_stop = fs->options.clean_stop,
                                                .folds = true};
        if (control_new(&f->control, &options, e) == ERR_OK)
            return f;
    }
    (void)error_set(e, ERR_NOMEM, "out of memory");
    discard(f);
    return NULL;
}

enum err filters_open(struct filters *fs, const char *name, size_t length, struct open_filter **out,
                      struct error *e)
{
    enum err code = ERR_OK;
    HOLD(&fs->lock);
    struct open_filter *f = look_up(fs, name, length);
    if (f != NULL && log_filter_is_closed(f->log)) {
        unlist(f); /* its maintainer is about to do so */
        f = NULL;
    }
    if (f == NULL) {
        struct error why = {""};
        f = open_filter_new(fs, name, length, &why);
        code = f == NULL ? error_set(e, ERR_NOMEM, "%s", why.text)
                         : mailbox_post(f->maintainer->mailbox, begin, f);
        if (code != ERR_OK) {
            discard(f);
        } else {
            f->is_listed = true;
            f->next = *bucket_of(fs, name, length);
            *bucket_of(fs, name, length) = f;
        }
    }
    if (code == ERR_OK) {
        atomic_fetch_add(&f->references, 1);
        *out = f;
    }
    return code;
}

struct open_filter *open_filter_keep(struct open_filter *f)
{
    atomic_fetch_add_explicit(&f->references, 1, memory_order_relaxed);
    return f;
}

void open_filter_close(struct open_filter *f)
{
    if (f != NULL)
        atomic_fetch_sub(&f->references, 1);
}

struct log_filter *open_filter_log(const struct open_filter *f)
{
    return f->log;
}

bool open_filter_is_over(const struct open_filter *f)
{
    return log_filter_is_closed(f->log);
}

unsigned filters_ended(const struct filters *fs)
{
    return atomic_load(&fs->ended);
}

uint64_t open_filter_since(const struct open_filter *f)
{
    return f->since;
}

/* NULL: the filter is not open. */
static struct open_filter *hold(struct filters *fs, const char *name, size_t length)
{
    HOLD(&fs->lock);
    struct open_filter *f = look_up(fs, name, length);
    if (f != NULL)
        f->references++;
    return f;
}

/* Looks at many shards, so it does not hold the filters' lock meanwhile. */
bool filters_status(struct filters *fs, const char *name, size_t length, struct log_status *out)
{
    struct open_filter *f = hold(fs, name, length);
    if (f == NULL)
        return false;
    (void)pthread_mutex_lock(&f->reading);
    bool found = f->control != NULL;
    if (found)
        control_status(f->control, out);
    (void)pthread_mutex_unlock(&f->reading);
    open_filter_close(f);
    return found;
}

bool filters_shards(struct filters *fs, const char *name, size_t length, uint64_t generation,
                    resident_shard_fn *fn, void *arg)
{
    struct open_filter *f = hold(fs, name, length);
    bool found = f != NULL && log_filter_shards(f->log, generation, fn, arg);
    open_filter_close(f);
    return found;
}

static bool has_ended(struct filters *fs, const char *name, size_t length, uint64_t incarnation)
{
    HOLD(&fs->lock);
    struct open_filter *f = look_up(fs, name, length);
    bool over = f == NULL || log_filter_is_closed(f->log) || log_filter_incarnation(f->log) != incarnation;
    if (!over)
        log_filter_look(f->log);
    return over;
}

void filters_await_end(struct filters *fs, const char *name, size_t length, uint64_t incarnation,
                       unsigned timeout_ms)
{
    enum { AGAIN_US = 1000 };
    uint64_t until = clock_mono_us() + (uint64_t)timeout_ms * 1000;
    while (!has_ended(fs, name, length, incarnation) && clock_mono_us() < until)
        clock_sleep_us(AGAIN_US);
}

void filters_look(struct filters *fs, const char *name, size_t length)
{
    HOLD(&fs->lock);
    struct open_filter *f = look_up(fs, name, length);
    if (f != NULL)
        log_filter_look(f->log);
}
