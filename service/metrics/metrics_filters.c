/* SPDX-License-Identifier: MIT */
/* Metrics of filters: converts TB.STATUS of each filter, by a table of its fields. */
#include <string.h>
#include <strings.h>
#include "expansion/decide/step.h"
#include "service/meter/meter.h"
#include "service/metrics/metrics_internal.h"
#include "service/protocol/list.h"
#include "shard/filter/view.h"

/* --- fields --- */

static const char *text(const redisReply *status, const char *name)
{
    const redisReply *f = list_field(status, name);
    return f != NULL && f->type == REDIS_REPLY_STRING ? f->str : "";
}

/* A flag in RESP2: 1 or 0. */
static bool flag(const redisReply *status, const char *name)
{
    uint64_t is = 0;
    return list_count(status, name, &is) && is > 0;
}

/* --- words --- */

struct named {
    struct samples *to;
    struct label filter;
};

/* Samples with value 1 for the word @is, 0 for the others. */
static void put_words(const struct named *n, enum metric m, const char *const *words, const char *is)
{
    for (; *words != NULL; words++)
        sample_count(n->to, m, (struct label[]){n->filter, label(*words)}, strcasecmp(*words, is) == 0);
}

static const char *known(const char *const *words, const char *word, const char *other)
{
    for (; *words != NULL; words++)
        if (strcasecmp(*words, word) == 0)
            return *words;
    return other;
}

/* Map the reason of a throttle, a sentence with figures, to a fixed word. */
static const char *reason_of(const char *throttle)
{
    static const struct {
        const char *part, *reason;
    } reasons[] = {{"operator", "operator"},
                   {"Redis p99", "redis"},
                   {"replication lag", "replication"},
                   {"transactions", "transactions"},
                   {"clients are active", "requests"}};
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (strstr(throttle, reasons[i].part) != NULL)
            return reasons[i].reason;
    return "other";
}

static void put_flag(const struct named *n, enum metric m, bool value)
{
    sample_count(n->to, m, &n->filter, value);
}

static void put_job(const struct named *n, const redisReply *status)
{
    static const char *const states[] = {"none",   "running", "waiting", "done", "healed",
                                         "failed", "aborted", "other",   NULL};
    const char *state = text(status, "job_state"), *throttle = text(status, "job_throttle_reason");
    enum job_step step;
    if (state[0] == '\0')
        return;
    put_words(n, METRIC_OF_JOB_STATE, states, known(states, state, "other"));
    bool runs = strcmp(state, "running") == 0 || strcmp(state, "waiting") == 0;
    if (!runs)
        return;
    const char *name = text(status, "job_step");
    if (step_parse(name, strlen(name), &step))
        sample_count(n->to, METRIC_OF_JOB_STEP, (struct label[]){n->filter, label(step_name(step))}, 1);
    put_flag(n, METRIC_OF_JOB_WAITING, text(status, "job_waiting_for")[0] != '\0');
    put_flag(n, METRIC_OF_JOB_PAUSED, flag(status, "job_paused"));
    if (throttle[0] != '\0')
        sample_count(n->to, METRIC_OF_JOB_THROTTLED, (struct label[]){n->filter, label(reason_of(throttle))},
                     1);
}

/* --- a filter --- */

static void put_state(const struct named *n, const char *state)
{
    static const char *const states[] = {"serving", "building", "not built", "degraded", "unreachable", NULL};
    put_words(n, METRIC_OF_FILTER_STATE, states, state);
    put_flag(n, METRIC_OF_FILTER_DEGRADED, strcmp(state, "degraded") == 0);
}

/* Numbers, in the units of metrics. A time of 0 means never, and gives no sample. */
static void put_numbers(const struct named *n, const redisReply *status)
{
    for (enum metric m = 0; m < METRIC_COUNT; m++) {
        const char *name = metric_rows[m].field, *end = name + strlen(name);
        double value;
        if (*name == '\0' || !list_decimal(status, name, &value))
            continue;
        if (strcmp(end - 3, "_ms") == 0)
            value /= 1000;
        else if (strcmp(end - 3, "_us") == 0)
            value /= 1e6;
        if (value > 0 || strcmp(end - 3, "_at") != 0)
            sample(n->to, m, &n->filter, value);
    }
}

static void put_filter(struct samples *to, const redisReply *status, const char *name, size_t length)
{
    static const char *const logs[] = {"opening", "open", "closed", "unused", NULL};
    const struct named n = {.to = to, .filter = {name, length}};
    put_state(&n, text(status, "state"));
    const char *phases[PHASE_COUNT + 1] = {NULL};
    for (unsigned i = 0; i < PHASE_COUNT; i++)
        phases[i] = phase_name((enum phase)i);
    if (text(status, "phase")[0] != '\0')
        put_words(&n, METRIC_OF_FILTER_PHASE, phases, text(status, "phase"));
    if (text(status, "log_state")[0] != '\0')
        put_words(&n, METRIC_OF_FILTER_LOG, logs, text(status, "log_state"));
    put_flag(&n, METRIC_OF_FILTER_READY, flag(status, "ready"));
    if (text(status, "table")[0] != '\0')
        put_flag(&n, METRIC_OF_FILTER_SOURCE_UP, strcmp(text(status, "postgres"), "ok") == 0);
    if (list_field(status, "follow_state") != NULL)
        put_flag(&n, METRIC_OF_TAIL_RUNNING, strcmp(text(status, "follow_state"), "running") == 0);
    put_numbers(&n, status);
    put_job(&n, status);
}

/* --- requests to Redis --- */

static enum status_is ask(struct admin *a, struct status *one)
{
    struct reply r = {.out = &one->reply, .protocol = 2};
    struct error ignored;
    enum err code = admin_status_one(a, &r, one->name, one->length, &ignored);
    SCOPED(scope_reply) redisReply *status = code == ERR_OK ? list_parse(&one->reply) : NULL;
    bool said = status != NULL && strcmp(text(status, "state"), "unreachable") != 0;
    return code == ERR_NOT_FOUND ? STATUS_GONE : said ? STATUS_SAID : STATUS_UNREACHABLE;
}

/* --- all filters --- */

/* True: the filter has samples. */
static bool put_one(struct samples *to, const struct status *s)
{
    SCOPED(scope_reply) redisReply *status = list_parse(&s->reply);
    if (status != NULL) {
        put_filter(to, status, s->name, s->length);
    } else if (s->is == STATUS_UNREACHABLE) {
        const struct named n = {.to = to, .filter = {s->name, s->length}};
        put_state(&n, "unreachable");
        put_flag(&n, METRIC_OF_FILTER_READY, false);
    }
    return status != NULL || s->is == STATUS_UNREACHABLE;
}

bool metrics_of_filters(struct admin *a, struct samples *to, struct statuses *statuses, uint64_t deadline_us)
{
    struct error ignored;
    struct statuses now = {.cursor = statuses->cursor};
    bool reached = admin_look_at_all(a, &now, ask, METER_FILTERS_MAX, deadline_us, &ignored) == ERR_OK;
    uint64_t count = now.count + now.omitted, shown = 0; /* those omitted are only counted */
    statuses_take(statuses, &now, UNNAMED_DROP);
    for (size_t i = 0; i < statuses->count; i++) {
        shown += put_one(to, &statuses->of[i]);
        count -= statuses->of[i].is == STATUS_GONE;
    }
    sample_count(to, METRIC_OF_FILTERS, NULL, count);
    sample_count(to, METRIC_OF_FILTERS_OMITTED, NULL, count - shown);
    return reached;
}
