/* SPDX-License-Identifier: MIT */
/* Decides whether a filter should be rebuilt. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "expansion/job/memory.h"
#include "expansion/decide/schedule.h"
#include "expansion/decide/threshold.h"
#include "expansion/decide/window.h"
#include "service/control/controller_internal.h"

enum {
    RETRY_FAILED_MS = 30 * 1000,       /* after a failed job, before a threshold starts the next one */
    RETRY_LOST_MS = 2 * 1000,          /* the same, if the job failed because its data were lost */
    RETRY_ABORTED_MS = 10 * 60 * 1000, /* after an operator's abort, */
    RETRY_NEEDED_MS = 60 * 1000        /* or, if no key can be reported absent until a job succeeds */
};

/* The first due time of the schedule since it was last served; 0: it is not due. */
static time_t schedule_was_due(const struct filter_state *w, const struct config_filter *c, time_t now)
{
    struct schedule schedule;
    struct error e;
    if (c->schedule[0] == '\0' || schedule_parse(&schedule, c->schedule, &e) != ERR_OK ||
        !schedule_due(&schedule, w->schedule_from, now))
        return 0;
    return schedule_next(&schedule, w->schedule_from);
}

/* The end of the last job. A failed job is not repeated at once. A job that another coordinator ended after
 * the schedule became due has served the schedule. */
struct last_job {
    bool running;         /* with a free mutex: its driver has died */
    bool failed, aborted; /* aborted: by an operator, who wants no rebuild now; not so a verification */
    bool lost;            /* it failed because shards were lost: they must be built again */
    uint64_t finished_ms;
    uint64_t expanded_ms;                    /* when the last expansion began */
    uint64_t bytes_generation;               /* made because of the memory threshold; 0: none */
    uint64_t dead_generation, dead_at_build; /* of the last one that was built */
    uint64_t swept;                          /* rows of transactions before this id were read; 0: unknown */
    uint64_t system;                         /* the database that gave it */
};

static enum err last_job(struct controller *k, struct last_job *last, struct error *e)
{
    uint64_t *const numbers[] = {&last->finished_ms,     &last->expanded_ms,   &last->bytes_generation,
                                 &last->dead_generation, &last->dead_at_build, &last->swept,
                                 &last->system};
    enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };
    SCOPED(scope_reply) redisReply *reply = NULL;
    *last = (struct last_job){.running = false};
    enum err code = sync_client_filter_command(
        k->redis, &k->handle.names, "job",
        "HMGET %b state finished_ms expanded_ms bytes_generation dead_generation dead_at_build swept "
        "system error_code trigger",
        &reply, e);
    if (code != ERR_OK)
        return code;
    if (reply->elements == NUMBERS + 3 && reply->element[0]->type == REDIS_REPLY_STRING) {
        const redisReply *error = reply->element[NUMBERS + 1], *trigger = reply->element[NUMBERS + 2];
        last->running = strcmp(reply->element[0]->str, "running") == 0;
        last->failed = strcmp(reply->element[0]->str, "failed") == 0;
        last->aborted = strcmp(reply->element[0]->str, "aborted") == 0 &&
                        (trigger->type != REDIS_REPLY_STRING || strcmp(trigger->str, "verify") != 0);
        last->lost = error->type == REDIS_REPLY_STRING && strcmp(error->str, error_name(ERR_LOST)) == 0;
        for (size_t i = 0; i < NUMBERS; i++) {
            const redisReply *value = reply->element[i + 1];
            if (value->type == REDIS_REPLY_STRING)
                (void)number_u64(value->str, (size_t)value->len, numbers[i]);
        }
    }
    return ERR_OK;
}

enum err controller_job_runs(struct controller *k, bool *runs, struct error *e)
{
    struct last_job last;
    enum err code = last_job(k, &last, e);
    *runs = last.running;
    return code;
}

/* @needed: answers are unreliable until a job succeeds; k->held_until_ms then gets the end of the wait. */
static bool too_soon(struct controller *k, const struct last_job *last, bool needed)
{
    uint64_t wait = 0;
    if (last->failed)
        wait = last->lost ? RETRY_LOST_MS : RETRY_FAILED_MS;
    else if (last->aborted)
        wait = needed ? RETRY_NEEDED_MS : RETRY_ABORTED_MS;
    uint64_t until = threshold_retry_at(last->finished_ms, wait, clock_wall_us() / 1000);
    if (until == 0)
        return false;
    if (needed) {
        k->held_until_ms = until;
        (void)snprintf(k->held_why, sizeof(k->held_why),
                       "the last job %s, and none runs: answers are unreliable until a rebuild succeeds; "
                       "a rebuild that an operator starts does not wait",
                       last->failed ? "failed" : "was aborted by an operator");
    }
    return true;
}

void controller_note_held(const struct controller *k, struct filter_state *w)
{
    if (k->held_until_ms != 0 && k->held_until_ms != w->note.next_attempt_ms)
        log_warn("waiting_to_build", "filter=%s next_attempt_at=%.3f error=%s", log_quote(w->name),
                 (double)k->held_until_ms / 1e3, log_quote(k->held_why));
    w->note.next_attempt_ms = k->held_until_ms;
    (void)snprintf(w->note.next_attempt_why, sizeof(w->note.next_attempt_why), "%s",
                   k->held_until_ms == 0 ? "" : k->held_why);
}

/* Note what waits for the filter's window; "": nothing. */
static void note_wanted(struct filter_state *w, const char *text)
{
    if (text[0] != '\0' && w->note.wanted[0] == '\0')
        log_info("waiting_for_window", "filter=%s reason=%s", log_quote(w->name), log_quote(text));
    (void)snprintf(w->note.wanted, sizeof(w->note.wanted), "%s", text);
}

static struct threshold_input input_of(const struct filter_state *w, const struct config_filter *c,
                                       const struct view *v, uint64_t items, uint64_t lost,
                                       const struct last_job *last)
{
    const struct generation *g = view_current(v);
    const struct source_rows *rows = &w->note.rows;
    return (struct threshold_input){
        /* A filter that was made before it had a table has in its first generation what was added, and no
         * rows. */
        .built = g->built && (v->sourced || g->number != 1),
        .lost_shards = lost,
        .items = items,
        .capacity = g->capacity,
        .source_rows = rows->rows,
        .rows_known = w->note.rows_ms != 0 && rows->by != SOURCE_ROWS_GUESSED,
        .rows_margin = rows->margin,
        .bytes = memory_of_generation(g),
        .expand_at = c->expand_at,
        .expand_at_dead = c->expand_at_dead,
        .dead_at_build = last->dead_generation == g->number ? last->dead_at_build : 0,
        /* A larger generation is above the bound again: do not rebuild for it twice. */
        .expand_at_bytes = last->bytes_generation == g->number ? 0 : c->expand_at_bytes,
        .layers = g->layer_count,
        .rate_bound = threshold_rate_bound(g),
    };
}

void controller_look_at_thresholds(struct controller *k, struct filter_state *w,
                                   const struct config_filter *c)
{
    const struct generation *g = view_current(&k->view);
    struct error e;
    const uint64_t items = k->view.keys[k->view.current];
    struct last_job last;
    if (last_job(k, &last, &e) != ERR_OK)
        return;
    if (last.running) {
        (void)controller_start(k, w, "unfinished", "unfinished", JOB_FINISH);
        return;
    }
    uint64_t lost = k->view.degraded && g->built;
    bool needed = lost > 0 || !g->built;
    w->rebuilt_from = g->built ? last.system : 0;
    if (!w->checked || controller_is_elsewhere(w, &w->history) || too_soon(k, &last, needed))
        return;
    time_t now = (time_t)(clock_wall_us() / 1000000);
    if (w->schedule_from > now) /* the clock was put back */
        w->schedule_from = now;
    time_t due = schedule_was_due(w, c, now);
    struct threshold_input in = input_of(w, c, &k->view, items, lost, &last);
    in.schedule_due = due != 0;
    in.older_looks = threshold_older_look(&w->older, w->given, last.swept, w->looks);
    in.dead_looks = threshold_dead_look(&w->dead, &in, g->number, w->looks);
    w->note.growth = window_growth_note(&w->growth, g->number,
                                        items > in.source_rows ? items : in.source_rows, clock_mono_us());
    char text[256];
    enum threshold_reason reason = threshold_evaluate(&in, text, sizeof(text));
    if (reason == THRESHOLD_SCHEDULE && threshold_has_served(last.expanded_ms, due, now)) {
        w->schedule_from = now; /* another coordinator, or another reason, has had it rebuilt */
        reason = THRESHOLD_NONE;
    }
    struct window window;
    bool waits = window_parse(&window, c->window, &e) == ERR_OK &&
                 threshold_waits(reason, &in, &window, w->note.growth, now);
    note_wanted(w, waits ? text : "");
    if (reason == THRESHOLD_NONE || waits)
        return;
    if (controller_start(k, w, text, threshold_name(reason), JOB_EXPAND) && reason == THRESHOLD_SCHEDULE)
        w->schedule_from = now;
}
