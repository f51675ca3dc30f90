/* SPDX-License-Identifier: MIT */
/* Whether the keeper finds that a filter should be rebuilt. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "expansion/layer.h"
#include "expansion/memory.h"
#include "expansion/schedule.h"
#include "expansion/threshold.h"
#include "expansion/window.h"
#include "service/keeper_internal.h"

enum {
    RETRY_FAILED_MS = 30 * 1000,      /* after a failed job, before a threshold starts the next */
    RETRY_ABORTED_MS = 10 * 60 * 1000 /* after an operator's abort */
};

/* Counts of the written layer's shards. NULL: none were asked for, or no memory. */
static uint64_t *shard_items(struct keeper *k, const struct generation *g, uint32_t *count)
{
    struct key_name name;
    redisReply *reply;
    struct error e;
    unsigned layer = generation_written_layer(g);
    *count = g->layers[layer].geometry.shards;
    uint64_t *items = calloc(*count, sizeof(*items));
    names_filter_key(&k->fence.names, "count", &name);
    if (items == NULL ||
        link_command(k->link, NODE_HOME, &reply, &e, "HGETALL %b", name.text, name.length) != ERR_OK) {
        free(items);
        return NULL;
    }
    char prefix[48];
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "%" PRIu64 ".%u.", g->number, layer);
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *field = reply->element[i], *value = reply->element[i + 1];
        uint64_t shard, n;
        if ((size_t)field->len > length && memcmp(field->str, prefix, length) == 0 &&
            number_u64(field->str + length, (size_t)field->len - length, &shard) && shard < *count &&
            number_u64(value->str, (size_t)value->len, &n))
            items[shard] = n;
    }
    freeReplyObject(reply);
    return items;
}

/* The first time that the schedule was due since it was served; 0: it is not due. */
static time_t schedule_was_due(const struct watched *w, const struct config_filter *c, time_t now)
{
    struct schedule schedule;
    struct error e;
    if (c->schedule[0] == '\0' || schedule_parse(&schedule, c->schedule, &e) != ERR_OK ||
        !schedule_due(&schedule, w->schedule_from, now))
        return 0;
    return schedule_next(&schedule, w->schedule_from);
}

/* The last job's end: a failed one is not begun again at once, and one that another coordinator ended after
 * our schedule fell due has served it. */
struct last_job {
    bool running; /* with a free mutex: its driver is gone */
    bool failed, aborted;
    uint64_t finished_ms;
    uint64_t expanded_ms;                    /* when the last expansion began */
    uint64_t bytes_generation;               /* that the memory threshold had made; 0: none */
    uint64_t dead_generation, dead_at_build; /* see record_dead() */
};

static enum err last_job(struct keeper *k, struct last_job *last, struct error *e)
{
    uint64_t *const numbers[] = {&last->finished_ms, &last->expanded_ms, &last->bytes_generation,
                                 &last->dead_generation, &last->dead_at_build};
    enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };
    struct key_name name;
    redisReply *reply;
    *last = (struct last_job){.running = false};
    names_filter_key(&k->fence.names, "job", &name);
    enum err code =
        link_command(k->link, NODE_HOME, &reply, e,
                     "HMGET %b state finished_ms expanded_ms bytes_generation dead_generation dead_at_build",
                     name.text, name.length);
    if (code != ERR_OK)
        return code;
    if (reply->elements == NUMBERS + 1 && reply->element[0]->type == REDIS_REPLY_STRING) {
        last->running = strcmp(reply->element[0]->str, "running") == 0;
        last->failed = strcmp(reply->element[0]->str, "failed") == 0;
        last->aborted = strcmp(reply->element[0]->str, "aborted") == 0;
        for (size_t i = 0; i < NUMBERS; i++) {
            const redisReply *value = reply->element[i + 1];
            if (value->type == REDIS_REPLY_STRING)
                (void)number_u64(value->str, (size_t)value->len, numbers[i]);
        }
    }
    freeReplyObject(reply);
    return ERR_OK;
}

enum err keeper_job_runs(struct keeper *k, bool *runs, struct error *e)
{
    struct last_job last;
    enum err code = last_job(k, &last, e);
    *runs = last.running;
    return code;
}

static bool too_soon(const struct last_job *last)
{
    uint64_t now = clock_wall_us() / 1000, since = now > last->finished_ms ? now - last->finished_ms : 0;
    return (last->failed && since < RETRY_FAILED_MS) || (last->aborted && since < RETRY_ABORTED_MS);
}

void keeper_note_wanted(struct watched *w, const char *text)
{
    if (text[0] != '\0' && w->note.wanted[0] == '\0')
        log_info("waits_for_window", "filter=%s reason=%s", log_quote(w->name), log_quote(text));
    watch_note_text(w->watch, w->note.wanted, sizeof(w->note.wanted), text);
}

static enum threshold_reason evaluate(struct keeper *k, struct threshold_input *in,
                                      const struct generation *g, char *text, size_t size)
{
    /* Shards fill evenly: single ones are worth a look only when the whole comes near. */
    uint64_t *shards = NULL;
    if (g->built && (double)in->items > in->expand_at * (double)g->capacity / 2)
        shards = shard_items(k, g, &in->shard_count);
    in->shard_items = shards;
    in->shard_capacity = in->shard_count == 0 ? 0 : g->capacity / in->shard_count;
    enum threshold_reason reason = threshold_evaluate(in, text, size);
    free(shards);
    in->shard_items = NULL;
    return reason;
}

static struct threshold_input input_of(const struct watched *w, const struct config_filter *c,
                                       const struct generation *g, uint64_t items,
                                       const struct last_job *last)
{
    const struct source_rows *rows = &w->note.rows;
    return (struct threshold_input){
        .built = g->built,
        .lost_shards = w->note.lost_generation == g->number ? w->note.lost_shards : 0,
        .items = items,
        .capacity = g->capacity,
        .source_rows = rows->rows,
        .rows_known = w->note.rows_ms != 0 && rows->by != SOURCE_ROWS_GUESSED,
        .rows_margin = rows->margin,
        .bytes = memory_of_generation(g),
        .expand_at = c->expand_at,
        .expand_at_dead = c->expand_at_dead,
        .dead_at_build = last->dead_generation == g->number ? last->dead_at_build : 0,
        /* A larger generation is above the bound again: once is enough. */
        .expand_at_bytes = last->bytes_generation == g->number ? 0 : c->expand_at_bytes,
        .layers = g->layer_count,
        .rate_bound = layer_rate_bound(g),
    };
}

void keeper_look_at_thresholds(struct keeper *k, struct watched *w, const struct config_filter *c)
{
    const struct generation *g = view_current(&k->view);
    struct error e;
    uint64_t items = 0;
    struct last_job last;
    if (last_job(k, &last, &e) != ERR_OK)
        return;
    if (last.running) {
        (void)keeper_start(k, w, "unfinished", "unfinished", JOB_FINISH);
        return;
    }
    if (!w->checked || too_soon(&last) || fence_all_items(&k->fence, g, &items, &e) != ERR_OK)
        return;
    time_t now = (time_t)(clock_wall_us() / 1000000), due = schedule_was_due(w, c, now);
    struct threshold_input in = input_of(w, c, g, items, &last);
    in.schedule_due = due != 0;
    in.dead_looks = threshold_dead_look(&w->dead, &in, g->number, w->looks);
    double growth = window_growth_note(&w->growth, g->number, items > in.source_rows ? items : in.source_rows,
                                       clock_mono_us());
    char text[256];
    enum threshold_reason reason = evaluate(k, &in, g, text, sizeof(text));
    if (reason == THRESHOLD_SCHEDULE && last.expanded_ms / 1000 >= (uint64_t)due) {
        w->schedule_from = now; /* another coordinator, or another reason, had it rebuilt since */
        reason = THRESHOLD_NONE;
    }
    struct window window;
    bool waits =
        window_parse(&window, c->window, &e) == ERR_OK && threshold_waits(reason, &in, &window, growth, now);
    keeper_note_wanted(w, waits ? text : "");
    if (reason == THRESHOLD_NONE || waits)
        return;
    if (keeper_start(k, w, text, threshold_name(reason), JOB_EXPAND) && reason == THRESHOLD_SCHEDULE)
        w->schedule_from = now;
}
