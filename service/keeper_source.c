/* SPDX-License-Identifier: MIT */
/* The keeper's looks at the sources of filters. */
#include <string.h>
#include <xxhash.h>
#include "base/clock.h"
#include "base/log.h"
#include "migrate/source.h"
#include "service/keeper_internal.h"

enum { ROWS_EVERY_US = 10 * 1000 * 1000 }; /* how often a source is asked for its rows */

/* What is known of dead keys goes with the rows: two looks in a row have none between them that failed. */
static void unknown(struct watched *w)
{
    w->dead = (struct threshold_dead){.looks = 0};
    watch_note_rows(w, NULL, 0);
}

static uint64_t hash_texts(const char *const *texts, size_t count)
{
    uint64_t hash = 1;
    for (size_t i = 0; i < count; i++)
        hash = XXH3_64bits_withSeed(texts[i], strlen(texts[i]), hash);
    return hash;
}

void keeper_follow(struct watched *w, const struct config_filter *c)
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
        watch_note_text(w->watch, w->note.postgres, sizeof(w->note.postgres), "");
    }
    if (schedule != w->schedule) { /* what it would have been due at before now is not made up for */
        w->schedule = schedule;
        w->schedule_from = (time_t)(clock_wall_us() / 1000000);
    }
}

static enum err ask(const struct keeper *k, const struct config_filter *c, struct source_rows *rows,
                    struct error *e)
{
    struct source *source = NULL;
    struct source_config config = {.dsn = k->config->dsn,
                                   .table = c->table,
                                   .id_column = c->id_column,
                                   .key = c->key,
                                   .where = c->where};
    enum err code = source_open(&source, &config, (unsigned)k->config->postgres_timeout_ms, e);
    if (code == ERR_OK)
        code = source_check(source, e);
    if (code == ERR_OK)
        code = source_rows_look(source, rows, e);
    source_close(source);
    return code;
}

void keeper_look_at_source(struct keeper *k, struct watched *w, const struct config_filter *c)
{
    uint64_t now = clock_mono_us();
    if (w->rows_at != 0 && now - w->rows_at < ROWS_EVERY_US && w->note.postgres[0] == '\0')
        return;
    if (keeper_is_hasty(k, w->rows_at))
        return;
    w->rows_at = now;
    struct source_rows rows;
    struct error e = {.text = ""};
    enum err code = ask(k, c, &rows, &e);
    if (code == ERR_OK) {
        w->looks++;
        watch_note_rows(w, &rows, clock_wall_us() / 1000);
    } else {
        unknown(w);
    }
    if (code != ERR_OK && strcmp(w->note.postgres, e.text) != 0)
        log_warn("source", "filter=%s why=%s", log_quote(w->name), log_quote(e.text));
    w->checked = code == ERR_OK;
    watch_note_text(w->watch, w->note.postgres, sizeof(w->note.postgres), code == ERR_OK ? "" : e.text);
}
