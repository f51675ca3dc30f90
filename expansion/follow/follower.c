/* SPDX-License-Identifier: MIT */
/* The follower's loop. The happy path is: take the lease, open the source and the mode, and follow until the
 * end. Possible failure modes are: another coordinator has the lease (try again now and then); Redis or
 * Postgres is away, or the configuration does not fit (report it, and begin again after a growing pause). */
#include "expansion/follow/follower.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "expansion/follow/follower_internal.h"
#include "shard/control/key_client.h"

enum {
    NAP_US = 50 * 1000,
    RETRY_MIN_US = 200 * 1000,
    RETRY_MAX_US = 5 * 1000 * 1000,
    RETRY_IMPOSSIBLE_US = 60 * 1000 * 1000,
    TABLES_US = 2 * 1000 * 1000,     /* pause between looks at which tables a pattern means, at least */
    NAMES_US = 10 * 1000 * 1000,     /* the same, of tables that are named */
    TABLES_SHARE = 50,               /* and at least this many times as long as the last one took */
    ATTEMPTS_APART_US = 1000 * 1000, /* pause between attempts while another coordinator has the lease */
};

const char *follower_mode_name(enum follower_mode mode)
{
    static const char *const names[] = {
        [FOLLOWER_KEYSET] = "ids", [FOLLOWER_LOGICAL] = "logical", [FOLLOWER_OUTBOX] = "outbox"};
    return names[mode];
}

void follower_slot_of(char out[FOLLOWER_SLOT_MAX], const char *configured, const char *filter)
{
    size_t n = (size_t)snprintf(out, FOLLOWER_SLOT_MAX, "%s", configured);
    if (n > 0)
        return;
    n = (size_t)snprintf(out, FOLLOWER_SLOT_MAX, "twinbloom_");
    for (; *filter != '\0' && n + 1 < FOLLOWER_SLOT_MAX; filter++) {
        unsigned char c = (unsigned char)*filter;
        out[n++] = isalnum(c) && c < 128 ? (char)tolower(c) : '_';
    }
    out[n] = '\0';
}

bool follower_stops(const struct follower *t)
{
    return atomic_load(t->o->stop);
}

/* Change the reported state; logs one line. */
static void follower_say(struct follower *t, const char *state)
{
    t->state = state;
    if (strcmp(t->said, state) == 0)
        return;
    (void)snprintf(t->said, sizeof(t->said), "%s", state);
    if (t->problem.text[0] == '\0')
        log_info("follow_state", "filter=%s state=%s follow_by=%s", log_quote(t->o->filter), state,
                 follower_mode_name(t->mode));
    else
        log_warn("follow_problem", "filter=%s state=%s follow_by=%s code=%s error=%s",
                 log_quote(t->o->filter), state, follower_mode_name(t->mode), error_name(t->problem_code),
                 log_quote(t->problem.text));
}

enum err follower_watch(void *arg, struct error *e)
{
    struct follower *t = arg;
    if (follower_stops(t))
        return error_set(e, ERR_CANCELLED, "the coordinator stops");
    enum err code = t->held ? follower_tend(t, e) : ERR_OK;
    return code == ERR_BUSY ? code : ERR_OK; /* Redis may be away for a while */
}

/* A slot reports no row of a table that is UNLOGGED. Who changes that makes other files. */
static enum err identify(const struct follower *t, struct source *s, uint64_t *out, struct error *e)
{
    return source_identity(s, t->o->mode == FOLLOWER_LOGICAL, "", out, e);
}

/* *@out NULL after an error. @identity: what its names and types were resolved for. The check may wait for
 * somebody who changes the table. */
static enum err open_fresh(struct follower *t, struct source **out, uint64_t *identity, struct error *e)
{
    struct source_config config = t->o->source;
    config.application = "twinbloom follower";
    config.watch = (struct source_watch){follower_watch, t};
    *out = NULL;
    enum err code = pool_open(t->o->pool, out, &config, t->o->postgres_timeout_ms, e);
    if (code == ERR_OK)
        code = identify(t, *out, identity, e);
    if (code == ERR_OK)
        code = source_check(*out, e);
    if (code != ERR_OK)
        source_drop(out);
    return code;
}

/* @took: how long the look took that was done just now. */
static void look_later(struct follower *t, uint64_t took)
{
    uint64_t least = source_has_pattern(t->source) ? TABLES_US : NAMES_US, pause = took * TABLES_SHARE;
    t->tables_due = clock_mono_us() + (pause < least ? least : pause);
}

static enum err open_source(struct follower *t, struct error *e)
{
    if (t->source != NULL)
        return source_take(t->source, e);
    enum err code = open_fresh(t, &t->source, &t->identity, e);
    if (code == ERR_OK)
        look_later(t, 0);
    return code;
}

enum err follower_unchanged(struct follower *t, struct error *e)
{
    uint64_t now = 0;
    enum err code = identify(t, t->source, &now, e);
    return code == ERR_OK && now != t->identity
               ? error_set(e, ERR_CHANGED,
                           "`table` changed: another table, other columns, partitions or files")
               : code;
}

/* Names are resolved when a source is opened. Whoever waits for a connection must not have one. */
enum err follower_same_tables(struct follower *t, bool at_once, struct error *e)
{
    struct source *fresh;
    uint64_t ignored, before = source_tables_hash(t->source), began = clock_mono_us();
    if (!at_once && began < t->tables_due)
        return ERR_OK;
    source_rest(t->source);
    enum err code = open_fresh(t, &fresh, &ignored, e);
    if (code != ERR_OK)
        return code;
    bool same = source_tables_hash(fresh) == before;
    source_close(fresh);
    look_later(t, clock_mono_us() - began);
    if (same)
        return source_take(t->source, e);
    t->has_more = true;
    code = follower_mark_write(t, "position", NULL, e); /* a slot may have sent rows unknown till then */
    return code == ERR_OK ? error_set(e, ERR_CHANGED, "`table` stands for other tables than before") : code;
}

/* Follow until the first error. */
static enum err follow(struct follower *t, struct error *e)
{
    t->attempt = random_u64();
    t->taken = false;
    t->done = 0;
    enum err code = follower_hold(t, e);
    if (code == ERR_OK)
        code = handle_load(&t->handle, &t->view, e);
    if (code == ERR_OK)
        code = open_source(t, e);
    if (code == ERR_OK)
        code = follower_same_keys(t, e);
    if (code == ERR_OK)
        code = follower_same_ids(t, e);
    if (code == ERR_OK)
        code = t->mode == FOLLOWER_KEYSET ? follower_keyset_open(t, e) : follower_feed_open(t, e);
    if (code == ERR_OK) {
        /* As long as this stays, no row that is committed on that server from here on is missed. */
        follower_coverage(t->feed.server ^ follower_rows(t->source), random_u64(), t->coverage);
        t->has_more = false; /* their marks are written */
        t->problem.text[0] = '\0';
        follower_say(t, "running");
        code = follower_hold(t, e);
    }
    if (code == ERR_OK)
        source_rest(t->source);
    while (code == ERR_OK && !follower_stops(t)) {
        code = t->mode == FOLLOWER_KEYSET ? follower_keyset_step(t, e) : follower_feed_step(t, e);
        if (code == ERR_OK)
            t->stepped_at = clock_mono_us();
        if (code == ERR_OK)
            code = follower_tend(t, e);
    }
    t->coverage[0] = '\0';
    follower_keyset_close(t);
    follower_feed_close(t);
    return code;
}

/* Sleep, but renew the lease, so that the problem stays visible. */
static void nap(struct follower *t, uint64_t us)
{
    struct error e;
    uint64_t until = clock_mono_us() + us;
    while (!follower_stops(t) && clock_mono_us() < until) {
        if (t->held && follower_tend(t, &e) != ERR_OK)
            sync_client_forget(t->redis);
        clock_sleep_us(NAP_US);
    }
}

/* Report a failure to people; renew the lease, so that it stays visible. */
static void tell(struct follower *t, enum err code, const struct error *why)
{
    struct error e;
    if (code == ERR_BUSY && !t->held) {
        t->problem.text[0] = '\0';
        follower_say(t, "standby");
        return;
    }
    if (strcmp(t->problem.text, why->text) != 0)
        t->said[0] = '\0';
    t->problem = *why;
    t->problem_code = code;
    follower_say(t, "waiting");
    if (t->held && follower_hold(t, &e) != ERR_OK)
        t->held = t->held && code != ERR_BUSY;
}

/* While Redis is away, too, the server keeps more and more WAL for a slot. */
static void watch_slot(struct follower *t)
{
    struct error e = {.text = ""};
    if (t->mode != FOLLOWER_LOGICAL || !t->held || open_source(t, &e) != ERR_OK)
        return;
    if (follower_feed_watch_slot(t, &e) == ERR_UNREACHABLE)
        source_drop(&t->source);
    else
        source_rest(t->source);
}

static bool loses_source(enum err code)
{
    return code == ERR_UNREACHABLE || code == ERR_TIMEOUT || code == ERR_IO || code == ERR_CONFIG ||
           code == ERR_CHANGED;
}

static enum err begin(struct follower *t, const struct follower_options *o, struct error *e)
{
    t->o = o;
    t->mode = o->mode;
    t->state = "starting";
    t->redis = sync_client_new(o->nodes, o->redis_timeout_ms, "twinbloom-tail");
    t->handle.redis = t->redis;
    return t->redis == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                            : names_init(&t->handle.names, o->prefix, o->filter, o->filter_length, e);
}

static void end(struct follower *t)
{
    source_close(t->source);
    key_client_free(t->client);
    handle_fini(&t->handle);
    script_fini(&t->call);
    sync_client_free(t->redis);
    free(t);
}

/* Clean up before the lease is released: no other follower runs yet. */
static void leave(struct follower *t)
{
    static const atomic_bool never;
    struct follower_options last = *t->o;
    struct error e = {.text = ""};
    if (t->held && atomic_load(t->o->drop)) {
        last.stop = &never; /* otherwise every wait would end at once */
        t->o = &last;
        enum err code = open_source(t, &e);
        if (code == ERR_OK)
            code = follower_feed_drop_slot(t, &e);
        if (code != ERR_OK)
            log_warn("follow_slot_not_dropped", "filter=%s code=%s error=%s", log_quote(t->o->filter),
                     error_name(code), log_quote(e.text));
    }
    follower_leave(t);
}

void follower_run(const struct follower_options *options)
{
    struct follower *t = calloc(1, sizeof(*t));
    struct error e = {.text = ""};
    uint64_t pause = RETRY_MIN_US;
    if (t == NULL)
        return;
    enum err code = begin(t, options, &e);
    while (code == ERR_OK && !follower_stops(t)) {
        uint64_t began = clock_mono_us();
        t->impossible = false;
        enum err ended = follow(t, &e);
        if (ended == ERR_OK || follower_stops(t))
            continue;
        sync_client_forget(t->redis);
        if (loses_source(ended))
            source_drop(&t->source);
        else if (t->source != NULL)
            source_rest(t->source);
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

enum err follower_clean(const struct follower_options *options, struct error *e)
{
    char slot[FOLLOWER_SLOT_MAX] = "";
    struct follower_status status = {.exists = false};
    struct follower *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = begin(t, options, e);
    if (code == ERR_OK)
        code = follower_look(t->redis, &t->handle.names, &status, e);
    if (code == ERR_OK && status.exists)
        code = error_set(e, ERR_BUSY, "a coordinator follows the table");
    if (code == ERR_OK)
        code = follower_mark_read(t, "slot", slot, sizeof(slot), e);
    if (code == ERR_OK && slot[0] != '\0')
        code = open_source(t, e);
    if (code == ERR_OK && slot[0] != '\0')
        code = follower_feed_drop_slot(t, e);
    end(t);
    return code;
}
