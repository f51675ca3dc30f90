/* SPDX-License-Identifier: MIT */
/* What the controller knows about filters' sources. It never waits for them: sources.h does the looking. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/record/timelines.h"
#include "service/control/controller_internal.h"
#include "service/filters/sources.h"

enum { ROWS_EVERY_US = 10 * 1000 * 1000 }; /* interval between looks at a source */

/* Discard what is known of the rows and the dead keys: looks that count as consecutive must have no failed
 * one in between. */
static void unknown(struct filter_state *w)
{
    w->dead = (struct threshold_dead){.looks = 0};
    w->note.rows = (struct source_rows){.by = SOURCE_ROWS_GUESSED};
    w->note.rows_ms = 0;
    w->given = 0;
    w->history = (struct source_history){.hash = 0};
}

static uint64_t hash_texts(const char *const *texts, size_t count)
{
    uint64_t hash = 1;
    for (size_t i = 0; i < count; i++)
        hash = XXH3_64bits_withSeed(texts[i], strlen(texts[i]), hash);
    return hash;
}

void controller_follow(struct filter_state *w, const struct config_filter *c)
{
    const bool sourced = c != NULL && c->table[0] != '\0';
    const uint64_t source =
        sourced ? hash_texts((const char *const[]){c->table, c->id_column, c->key, c->where}, 4) : 0;
    const uint64_t schedule = c == NULL ? 0 : hash_texts((const char *const[]){c->schedule}, 1);
    if (source != w->source) {
        w->source = source;
        w->rows_at = 0;
        unknown(w);
        w->checked = false;
        w->note.postgres[0] = '\0';
    }
    if (schedule != w->schedule) { /* earlier due times are not made up for */
        w->schedule = schedule;
        w->schedule_from = (time_t)(clock_wall_us() / 1000000);
    }
}

/* Is the server the primary? A timeline is noted when two looks have found it, as `dsn` may lead elsewhere
 * for a moment. */
static enum err compare_server(struct controller *k, struct filter_state *w, struct source_facts *found)
{
    const struct source_history *now = &found->history;
    if (controller_is_elsewhere(w, now))
        return error_set(&found->error, ERR_CONFIG,
                         "dsn leads to another Postgres (system identifier %" PRIu64
                         ") than the last rebuild has read (%" PRIu64
                         "); if that is meant, run: twinbloom rebuild FILTER",
                         now->system, w->rebuilt_from);
    bool again = w->history.hash == now->hash;
    w->history = *now;
    return timelines_look(k->redis, k->config->prefix, now, again, &found->error);
}

bool controller_is_elsewhere(const struct filter_state *w, const struct source_history *now)
{
    return w->rebuilt_from != 0 && now->hash != 0 && now->system != w->rebuilt_from;
}

/* Take the result of the look under way; a look at another source than the present one is dropped. */
static void take(struct controller *k, struct filter_state *w, struct source_facts *found)
{
    bool meant = w->look_source == w->source;
    source_look_free(w->look);
    w->look = NULL;
    if (!meant)
        return;
    if (found->code == ERR_OK)
        found->code = compare_server(k, w, found);
    bool good = found->code == ERR_OK;
    if (good) {
        w->looks++;
        w->note.rows = found->rows;
        w->note.rows_ms = found->at_ms;
        w->given = found->given;
    } else {
        unknown(w);
    }
    if (!good && strcmp(w->note.postgres, found->error.text) != 0)
        log_warn("source_unusable", "filter=%s code=%s error=%s", log_quote(w->name), error_name(found->code),
                 log_quote(found->error.text));
    w->checked = good;
    (void)snprintf(w->note.postgres, sizeof(w->note.postgres), "%.*s", (int)sizeof(w->note.postgres) - 1,
                   good ? "" : found->error.text);
}

/* Until the result comes, the previous findings stay. */
void controller_look_at_source(struct controller *k, struct filter_state *w, const struct config_filter *c)
{
    struct source_facts found;
    if (w->look != NULL && !source_look_ended(w->look, &found))
        return;
    if (w->look != NULL)
        take(k, w, &found);
    uint64_t now = clock_mono_us();
    if (w->rows_at != 0 && now - w->rows_at < ROWS_EVERY_US && w->note.postgres[0] == '\0')
        return;
    if (controller_is_rate_limited(k, w->rows_at))
        return;
    w->rows_at = now;
    w->look = sources_look(k->o->sources, k->config, c, w->checked);
    w->look_source = w->source;
}
