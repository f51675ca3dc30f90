/* SPDX-License-Identifier: MIT */
/* A checker: a pipeline of BF.EXISTS and one BF.MEXISTS at a time, of known keys, which must never be denied,
 * and of absent ones, which measure the false-positive rate. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "deploy/traffic.h"

enum { SINGLE = 16, MANY = 32, BATCH = SINGLE + MANY, ABSENT_EVERY = 4, RECHECK_BATCH = 500 };

struct batch {
    struct code code[BATCH];
    bool known[BATCH];
};

static void choose(struct checker *c, struct batch *b)
{
    for (size_t i = 0; i < BATCH; i++) {
        b->known[i] = i % ABSENT_EVERY != 0;
        if (b->known[i])
            b->code[i] = traffic_known(c->traffic, &c->random);
        else
            b->code[i] = code_of(ABSENT_FROM + traffic_random(&c->random) % (CODE_COUNT - ABSENT_FROM));
    }
}

static bool append_mexists(redisContext *daemon, const char *filter, const struct code *codes, size_t n)
{
    const char *argv[RECHECK_BATCH + 2] = {"BF.MEXISTS", filter};
    size_t lengths[RECHECK_BATCH + 2] = {strlen("BF.MEXISTS"), strlen(filter)};
    for (size_t i = 0; i < n; i++) {
        argv[2 + i] = codes[i].text;
        lengths[2 + i] = CODE_LENGTH;
    }
    return redisAppendCommandArgv(daemon, (int)n + 2, argv, lengths) == REDIS_OK;
}

static void judge(struct checker *c, const struct batch *b, size_t i, bool maybe, bool built)
{
    struct figures *f = c->figures;
    tally(&f->keys_checked, 1);
    if (b->known[i]) {
        if (!maybe)
            traffic_denied(c->traffic, f, b->code[i].text, "in a check");
    } else if (built) {
        tally(&f->absent_checked, 1);
        tally(&f->absent_maybe, maybe);
    }
}

/* The reply to one command that asked for @n keys from the @first of the batch. */
static bool take_reply(struct checker *c, const struct batch *b, size_t first, size_t n, uint64_t begin,
                       int moment)
{
    redisReply *r = NULL;
    if (redisGetReply(c->daemon, (void **)&r) != REDIS_OK || r == NULL) {
        traffic_fail(c->traffic, "the daemon is gone: a check got no answer: %s", c->daemon->errstr);
        return false;
    }
    uint64_t end = clock_mono_us();
    histogram_record(&c->figures->checks[moment], end - begin);
    stalls_record(&c->figures->stalls, begin, end);
    bool built = moment != MOMENT_UNBUILT;
    if (r->type == REDIS_REPLY_INTEGER && n == 1) {
        judge(c, b, first, r->integer != 0, built);
    } else if (r->type == REDIS_REPLY_ARRAY && r->elements == n) {
        for (size_t i = 0; i < n; i++) {
            const redisReply *element = r->element[i];
            if (element->type == REDIS_REPLY_INTEGER)
                judge(c, b, first + i, element->integer != 0, built);
            else
                traffic_refused(c->traffic, c->figures, element->str != NULL ? element->str : "no integer");
        }
    } else {
        traffic_refused(c->traffic, c->figures,
                        r->type == REDIS_REPLY_ERROR ? r->str : "reply of a wrong type");
    }
    freeReplyObject(r);
    return true;
}

static bool round_trip(struct checker *c, struct batch *b)
{
    const char *filter = c->traffic->options.filter;
    choose(c, b);
    int moment = atomic_load_explicit(&c->traffic->moment, memory_order_relaxed);
    uint64_t begin = clock_mono_us();
    bool sent = true;
    for (size_t i = 0; sent && i < SINGLE; i++)
        sent = redisAppendCommand(c->daemon, "BF.EXISTS %s %s", filter, b->code[i].text) == REDIS_OK;
    if (!sent || !append_mexists(c->daemon, filter, &b->code[SINGLE], MANY)) {
        traffic_fail(c->traffic, "no memory for a request");
        return false;
    }
    for (size_t i = 0; i < SINGLE; i++)
        if (!take_reply(c, b, i, 1, begin, moment))
            return false;
    return take_reply(c, b, SINGLE, MANY, begin, moment);
}

void *checker_run(void *arg)
{
    struct checker *c = arg;
    struct traffic *t = c->traffic;
    struct batch batch;
    uint64_t start = clock_mono_us();
    uint64_t done = 0;
    while (!atomic_load_explicit(&t->stop, memory_order_relaxed) && round_trip(c, &batch)) {
        done += BATCH;
        traffic_pace(t, start, done, (double)t->options.checks_per_second / t->options.checkers);
    }
    return NULL;
}

/* The keys of @codes that the filter denies. An error reply ends it: what could not be asked is not proven.
 */
static enum err count_denied(struct traffic *t, redisContext *daemon, const struct code *codes, size_t count,
                             uint64_t *denied, struct error *e)
{
    for (size_t at = 0; at < count; at += RECHECK_BATCH) {
        size_t n = count - at < RECHECK_BATCH ? count - at : RECHECK_BATCH;
        redisReply *r = NULL;
        if (!append_mexists(daemon, t->options.filter, &codes[at], n) ||
            redisGetReply(daemon, (void **)&r) != REDIS_OK || r == NULL)
            return error_set(e, ERR_UNREACHABLE, "the daemon is gone in the last check of all keys: %s",
                             daemon->errstr);
        if (r->type != REDIS_REPLY_ARRAY || r->elements != n) {
            (void)error_set(e, ERR_REFUSED, "the last check of all keys: %s",
                            r->type == REDIS_REPLY_ERROR ? r->str : "reply of a wrong type");
            freeReplyObject(r);
            return ERR_REFUSED;
        }
        for (size_t i = 0; i < n; i++) {
            if (r->element[i]->type == REDIS_REPLY_INTEGER && r->element[i]->integer == 1)
                continue;
            (*denied)++;
            if (*denied <= 10)
                (void)fprintf(stderr, "BROKEN PROMISE: key %s is reported absent at the end\n",
                              codes[at + i].text);
        }
        t->rechecked += n;
        freeReplyObject(r);
    }
    return ERR_OK;
}

enum err traffic_recheck(struct traffic *t, redisContext *daemon, struct error *e)
{
    enum err err = count_denied(t, daemon, t->loaded, t->loaded_count, &t->loaded_absent, e);
    for (unsigned i = 0; err == ERR_OK && i < t->creator_count; i++)
        err = count_denied(t, daemon, t->creator[i].acknowledged,
                           atomic_load(&t->creator[i].acknowledged_count), &t->recheck_absent, e);
    return err;
}
