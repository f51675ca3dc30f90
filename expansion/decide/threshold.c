/* SPDX-License-Identifier: MIT */
#include "expansion/decide/threshold.h"

#include <stdio.h>

#include "base/number.h"

/* --- dead keys --- */

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t threshold_dead_keys(const struct threshold_input *in)
{
    return less(in->items, in->source_rows);
}

static bool many_are_dead(const struct threshold_input *in)
{
    uint64_t surely = less(less(threshold_dead_keys(in), in->dead_at_build), in->rows_margin);
    return in->built && in->rows_known && in->expand_at_dead > 0 && surely > 0 &&
           (double)surely >= in->expand_at_dead * (double)in->items;
}

unsigned threshold_dead_look(struct threshold_dead *d, const struct threshold_input *in, uint64_t generation,
                             uint64_t look)
{
    bool many = many_are_dead(in);
    if (!many || generation != d->generation)
        *d = (struct threshold_dead){.generation = generation, .look = look};
    if (look != d->look)
        d->looks++;
    d->look = look;
    return d->looks;
}

static bool dead_reached(const struct threshold_input *in, char *text, size_t text_size)
{
    if (in->dead_looks < THRESHOLD_DEAD_LOOKS || !many_are_dead(in))
        return false;
    uint64_t dead = threshold_dead_keys(in);
    char a[NUMBER_GROUPED_SIZE];
    char b[NUMBER_GROUPED_SIZE];
    (void)snprintf(text, text_size, "%s of %s keys are dead: %.0f%% (expand_at_dead: %.0f%%)",
                   number_grouped(dead, a), number_grouped(in->items, b),
                   100 * (double)dead / (double)in->items, 100 * in->expand_at_dead);
    return true;
}

/* --- a database that went back --- */

unsigned threshold_older_look(struct threshold_older *o, uint64_t given, uint64_t read_upto, uint64_t look)
{
    if (given == 0 || given >= read_upto || read_upto != o->read_upto)
        *o = (struct threshold_older){.read_upto = read_upto, .look = look};
    if (look != o->look)
        o->looks++;
    o->look = look;
    return o->looks;
}

/* --- fill --- */

static bool total_reached(const struct threshold_input *in, char *text, size_t text_size)
{
    bool by_rows = in->source_rows > in->items;
    uint64_t most = by_rows ? in->source_rows : in->items;
    if (in->capacity == 0)
        return false;
    double fill = (double)most / (double)in->capacity;
    if (!(fill >= in->expand_at))
        return false;
    char a[NUMBER_GROUPED_SIZE];
    char b[NUMBER_GROUPED_SIZE];
    (void)snprintf(text, text_size, "%s %s are %.0f%% of the capacity %s (expand_at: %.0f%%)",
                   number_grouped(most, a), by_rows ? "rows" : "keys", 100 * fill,
                   number_grouped(in->capacity, b), 100 * in->expand_at);
    return true;
}

static bool bytes_reached(const struct threshold_input *in, char *text, size_t text_size)
{
    if (in->expand_at_bytes == 0 || in->bytes < in->expand_at_bytes)
        return false;
    char a[NUMBER_GROUPED_SIZE];
    char b[NUMBER_GROUPED_SIZE];
    (void)snprintf(text, text_size, "%s bytes (expand_at_bytes: %s)", number_grouped(in->bytes, a),
                   number_grouped(in->expand_at_bytes, b));
    return true;
}

/* --- evaluation --- */

enum threshold_reason threshold_evaluate(const struct threshold_input *in, char *text, size_t text_size)
{
    if (!in->built) {
        (void)snprintf(text, text_size, "not built yet");
        return THRESHOLD_UNBUILT;
    }
    if (in->lost_shards != 0) {
        char lost[NUMBER_GROUPED_SIZE];
        (void)snprintf(text, text_size, "%s %s lost", number_grouped(in->lost_shards, lost),
                       in->lost_shards == 1 ? "shard was" : "shards were");
        return THRESHOLD_LOST;
    }
    if (in->older_looks >= THRESHOLD_OLDER_LOOKS) {
        (void)snprintf(
            text, text_size,
            "the database is in an earlier state than the last rebuild has read, or is another one");
        return THRESHOLD_OLDER;
    }
    if (in->layers > 1) {
        (void)snprintf(text, text_size, "it has %u layers, and false positives up to %.3g", in->layers,
                       in->rate_bound);
        return THRESHOLD_OVERFLOW;
    }
    if (dead_reached(in, text, text_size))
        return THRESHOLD_DEAD;
    if (total_reached(in, text, text_size))
        return THRESHOLD_TOTAL;
    if (bytes_reached(in, text, text_size))
        return THRESHOLD_BYTES;
    if (in->schedule_due) {
        (void)snprintf(text, text_size, "the schedule is due");
        return THRESHOLD_SCHEDULE;
    }
    return THRESHOLD_NONE;
}

bool threshold_waits(enum threshold_reason reason, const struct threshold_input *in,
                     const struct window *window, double items_per_second, time_t now)
{
    if (reason == THRESHOLD_NONE || reason == THRESHOLD_UNBUILT || reason == THRESHOLD_LOST ||
        reason == THRESHOLD_OLDER || reason == THRESHOLD_OVERFLOW || window_is_open(window, now))
        return false;
    uint64_t most = in->items > in->source_rows ? in->items : in->source_rows;
    time_t opens = window_next_open(window, now);
    return opens != 0 &&
           !window_must_start_now(most, in->capacity, items_per_second, (uint64_t)(opens - now));
}

uint64_t threshold_retry_at(uint64_t finished_ms, uint64_t wait_ms, uint64_t now_ms)
{
    uint64_t until = finished_ms + wait_ms;
    return until > now_ms && until - now_ms <= 2 * wait_ms ? until : 0;
}

bool threshold_has_served(uint64_t expanded_ms, time_t due, time_t now)
{
    enum { AHEAD_S = 60 }; /* clocks differ a little */
    uint64_t at = expanded_ms / 1000;
    return at >= (uint64_t)due && at <= (uint64_t)now + AHEAD_S;
}

const char *threshold_name(enum threshold_reason reason)
{
    static const char *const names[] = {
        [THRESHOLD_NONE] = "none",   [THRESHOLD_UNBUILT] = "unbuilt",   [THRESHOLD_LOST] = "lost",
        [THRESHOLD_OLDER] = "older", [THRESHOLD_OVERFLOW] = "overflow", [THRESHOLD_DEAD] = "dead",
        [THRESHOLD_TOTAL] = "total", [THRESHOLD_BYTES] = "bytes",       [THRESHOLD_SCHEDULE] = "schedule"};
    return names[reason];
}

double threshold_rate_bound(const struct generation *g)
{
    double sum = 0;
    for (unsigned i = 0; i < g->layer_count; i++)
        sum += g->layers[i].error_rate;
    return sum;
}
