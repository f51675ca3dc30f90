/* SPDX-License-Identifier: MIT */
/* The tail's loop. The happy path is: the lease is taken, the source opened, the mode opened, and followed
 * until the end. Possible failure modes are: another coordinator has the lease (look again now and then);
 * Redis or Postgres is away, or what is configured does not fit (say so, and begin anew, a little later each
 * time). */
#include "expansion/follow/tail.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "expansion/follow/tail_internal.h"
#include "shard/request/key_client.h"

enum {
    NAP_US = 50 * 1000,
    RETRY_MIN_US = 200 * 1000,
    RETRY_MAX_US = 5 * 1000 * 1000,
    RETRY_IMPOSSIBLE_US = 60 * 1000 * 1000,
    ATTEMPTS_APART_US = 1000 * 1000, /* while another has the lease */
};

const char *tail_mode_name(enum tail_mode mode)
{
    static const char *const names[] = {
        [TAIL_KEYSET] = "ids", [TAIL_LOGICAL] = "logical", [TAIL_OUTBOX] = "outbox"};
    return names[mode];
}

void tail_slot_of(char out[TAIL_SLOT_MAX], const char *configured, const char *filter)
{
    size_t n = (size_t)snprintf(out, TAIL_SLOT_MAX, "%s", configured);
    if (n > 0)
        return;
    n = (size_t)snprintf(out, TAIL_SLOT_MAX, "twinbloom_");
    for (; *filter != '\0' && n + 1 < TAIL_SLOT_MAX; filter++) {
        unsigned char c = (unsigned char)*filter;
        out[n++] = isalnum(c) && c < 128 ? (char)tolower(c) : '_';
    }
    out[n] = '\0';
}

bool tail_stops(const struct follower *t)
{
    return atomic_load(t->o->stop);
}

/* Say another state; one line in the log. */
static void tail_say(struct follower *t, const char *state)
{
    t->state = state;
    if (strcmp(t->said, state) == 0)
        return;
    (void)snprintf(t->said, sizeof(t->said), "%s", state);
    if (t->problem.text[0] == '\0')
        log_info("follow_state", "filter=%s state=%s follow_by=%s", log_quote(t->o->filter), state,
                 tail_mode_name(t->mode));
    else
        log_warn("follow_problem", "filter=%s state=%s follow_by=%s code=%s error=%s",
                 log_quote(t->o->filter), state, tail_mode_name(t->mode), error_name(t->problem_code),
                 log_quote(t->problem.text));
}

/* Ends a wait for Postgres when the tail must end; keeps the lease meanwhile. */
static enum err watch(void *arg, struct error *e)
{
    struct follower *t = arg;
    if (tail_stops(t))
        return error_set(e, ERR_CANCELLED, "the coordinator stops");
    enum err code = t->held ? tail_tend(t, e) : ERR_OK;
    return code == ERR_BUSY ? code : ERR_OK;
}

static enum err open_source(struct follower *t, struct error *e)
{
    if (t->source != NULL)
        return source_take(t->source, e);
    struct source_config config = t->o->source;
    config.application = "twinbloom follower";
    config.watch = (struct source_watch){watch, t};
    enum err code = pool_open(t->o->pool, &t->source, &config, t->o->postgres_timeout_ms, e);
    if (code == ERR_OK)
        code = source_check(t->source, e);
    if (code != ERR_OK) {
        source_close(t->source);
        t->source = NULL;
    }
    return code;
}

static enum err open_mode(struct follower *t, struct error *e)
{
    return t->mode == TAIL_KEYSET ? tail_keyset_open(t, e) : tail_feed_open(t, e);
}

static enum err step(struct follower *t, struct error *e)
{
    return t->mode == TAIL_KEYSET ? tail_keyset_step(t, e) : tail_feed_step(t, e);
}

static void close_mode(struct follower *t)
{
    tail_keyset_close(t);
    tail_feed_close(t);
}

/* From the lease to the first error. */
static enum err follow(struct follower *t, struct error *e)
{
    enum err code = tail_hold(t, e);
    if (code == ERR_OK)
        code = handle_load(&t->handle, &t->view, e);
    if (code == ERR_OK)
        code = open_source(t, e);
    if (code == ERR_OK)
        code = open_mode(t, e);
    if (code == ERR_OK) {
        /* Nothing that is committed from here on is missed while this number stays. */
        (void)snprintf(t->coverage, sizeof(t->coverage), "%016" PRIx64, random_u64());
        t->problem.text[0] = '\0';
        tail_say(t, "running");
        code = tail_hold(t, e);
    }
    if (code == ERR_OK)
        source_rest(t->source);
    while (code == ERR_OK && !tail_stops(t)) {
        code = step(t, e);
        if (code == ERR_OK)
            t->stepped_at = clock_mono_us();
        if (code == ERR_OK)
            code = tail_tend(t, e);
    }
    t->coverage[0] = '\0';
    close_mode(t);
    return code;
}

/* The lease is kept meanwhile, so that what is wrong is to be seen. */
static void nap(struct follower *t, uint64_t us)
{
    struct error e;
    uint64_t until = clock_mono_us() + us;
    while (!tail_stops(t) && clock_mono_us() < until) {
        if (t->held && tail_tend(t, &e) != ERR_OK)
            link_forget(t->link);
        clock_sleep_us(NAP_US);
    }
}

/* What failed, for people; the lease is kept, so that it is seen. */
static void tell(struct follower *t, enum err code, const struct error *why)
{
    struct error e;
    if (code == ERR_BUSY && !t->held) {
        t->problem.text[0] = '\0';
        tail_say(t, "standby");
        return;
    }
    if (strcmp(t->problem.text, why->text) != 0)
        t->said[0] = '\0';
    t->problem = *why;
    t->problem_code = code;
    tail_say(t, "waiting");
    if (t->held && tail_hold(t, &e) != ERR_OK)
        t->held = t->held && code != ERR_BUSY;
}

/* What the server keeps for a slot grows while Redis is away, too. */
static void watch_slot(struct follower *t)
{
    struct error e = {.text = ""};
    if (t->mode != TAIL_LOGICAL || !t->held || open_source(t, &e) != ERR_OK)
        return;
    if (tail_feed_watch_slot(t, &e) == ERR_UNREACHABLE) {
        source_close(t->source);
        t->source = NULL;
        return;
    }
    source_rest(t->source);
}

static bool loses_source(enum err code)
{
    return code == ERR_UNREACHABLE || code == ERR_TIMEOUT || code == ERR_IO || code == ERR_CONFIG ||
           code == ERR_CHANGED;
}

static enum err begin(struct follower *t, const struct tail_options *o, struct error *e)
{
    t->o = o;
    t->mode = o->mode;
    t->state = "starting";
    t->link = link_new(o->nodes, o->redis_timeout_ms, "twinbloom-tail");
    t->handle.link = t->link;
    return t->link == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                           : names_init(&t->handle.names, o->prefix, o->filter, o->filter_length, e);
}

static void end(struct follower *t)
{
    source_close(t->source);
    key_client_free(t->client);
    handle_fini(&t->handle);
    script_fini(&t->call);
    link_free(t->link);
    free(t);
}

/* Before the lease is given back: nobody else has begun yet. */
static void leave(struct follower *t)
{
    static const atomic_bool never;
    struct tail_options last = *t->o;
    struct error e = {.text = ""};
    if (t->held && atomic_load(t->o->drop)) {
        last.stop = &never; /* or every wait would end at once */
        t->o = &last;
        enum err code = open_source(t, &e);
        if (code == ERR_OK)
            code = tail_feed_drop_slot(t, &e);
        if (code != ERR_OK)
            log_warn("follow_slot_not_dropped", "filter=%s code=%s error=%s", log_quote(t->o->filter),
                     error_name(code), log_quote(e.text));
    }
    tail_leave(t);
}

void tail_run(const struct tail_options *options)
{
    struct follower *t = calloc(1, sizeof(*t));
    struct error e = {.text = ""};
    uint64_t pause = RETRY_MIN_US;
    if (t == NULL)
        return;
    enum err code = begin(t, options, &e);
    while (code == ERR_OK && !tail_stops(t)) {
        uint64_t began = clock_mono_us();
        enum err ended = follow(t, &e);
        if (ended == ERR_OK || tail_stops(t))
            continue;
        link_forget(t->link);
        if (loses_source(ended)) {
            source_close(t->source);
            t->source = NULL;
        } else if (t->source != NULL) {
            source_rest(t->source);
        }
        if (clock_mono_us() - began > RETRY_MAX_US)
            pause = RETRY_MIN_US;
        tell(t, ended, &e);
        watch_slot(t);
        nap(t, ended == ERR_BUSY ? ATTEMPTS_APART_US : t->impossible ? RETRY_IMPOSSIBLE_US : pause);
        pause = pause * 2 < RETRY_MAX_US ? pause * 2 : RETRY_MAX_US;
    }
    if (code == ERR_OK)
        leave(t);
    else
        log_warn("follow_failed", "filter=%s code=%s error=%s", log_quote(options->filter), error_name(code),
                 log_quote(e.text));
    end(t);
}

enum err tail_clean(const struct tail_options *options, struct error *e)
{
    char slot[TAIL_SLOT_MAX] = "";
    struct tail_status status = {.exists = false};
    struct follower *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = begin(t, options, e);
    if (code == ERR_OK)
        code = tail_look(t->link, &t->handle.names, &status, e);
    if (code == ERR_OK && status.exists)
        code = error_set(e, ERR_BUSY, "a coordinator follows the table");
    if (code == ERR_OK)
        code = tail_mark_read(t, "slot", slot, sizeof(slot), e);
    if (code == ERR_OK && slot[0] != '\0')
        code = open_source(t, e);
    if (code == ERR_OK && slot[0] != '\0')
        code = tail_feed_drop_slot(t, e);
    if (t->link != NULL)
        end(t);
    else
        free(t);
    return code;
}
