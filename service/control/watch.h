/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_WATCH_H
#define SERVICE_CONTROL_WATCH_H
/* What is known of the filters between two looks: kept by the keeper, read by the admin thread. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "base/error.h"
#include "expansion/decide/threshold.h"
#include "expansion/decide/window.h"
#include "migrate/source/source.h"
#include "service/core/service.h"

/* What the keeper last found of a filter that is not in Redis; a copy. */
struct keeper_note {
    uint64_t degraded_ms;     /* since when it is degraded, wall clock; 0: it is not */
    struct source_rows rows;  /* of the source, as last looked up */
    uint64_t rows_ms;         /* when, wall clock; 0: not yet, or not the last time */
    double growth;            /* keys, or rows of the source, that came in a second; 0: unknown, or none */
    char postgres[256];       /* "" where it answers or is not needed */
    char problem[512];        /* why the filter is not as it should be; "" */
    char wanted[256];         /* why an expansion is wanted that waits for the filter's window; "" */
    uint64_t next_attempt_ms; /* a rebuild that it needs begins then, wall clock; 0: none waits */
    char next_attempt_why[160];
};

/* The keeper's memory; made before any thread that uses it, freed after the last. NULL: no memory. */
struct watch *watch_new(void);
void watch_free(struct watch *watch);

struct keeper_note keeper_note(struct service *s, const char *name, size_t length);

/* One filter. The keeper alone forgets it; but for `seen`, `dropped` and the note it is the
 * keeper's alone. */
struct watched {
    struct watch *watch;
    char *name;
    size_t length;
    struct source_look *look; /* at the source, under way; NULL: none. Ours; see sources.h */
    uint64_t look_source;     /* the source that it is at, as @source */
    uint64_t rows_at;         /* when a look was last asked for */
    uint64_t looks;           /* how often the source has answered */
    struct threshold_dead dead;
    uint64_t seen;        /* the incarnation of the view that it had once; 0: none */
    uint64_t dropped;     /* the last incarnation that was deleted */
    uint64_t round;       /* of the keeper, in which it was looked at */
    uint64_t lost_shards; /* missing in Redis, as was told last */
    bool checked;         /* the source's table and columns were found fit */
    time_t schedule_from;
    uint64_t made_at, started_at, dropped_at; /* see is_hasty() */
    struct window_growth growth;
    uint64_t source, schedule; /* as configured, hashed; see follow() */
    struct keeper_note note;
    struct watched *next; /* of the hash chain */
};

/* For the keeper: the entry behind @w, the first one where @w is NULL. NULL: there is none. */
struct watched *watch_next(struct watch *watch, const struct watched *w);
/* For the keeper: forget the entries of filters that are deleted, or were never there, and that it has not
 * looked at since round @round. */
void watch_forget(struct watch *watch, uint64_t round);
/* The incarnation of the view that it had; 0: none. */
uint64_t watch_seen(struct watched *w);
/* For the keeper: the entry of a filter, made if needed. NULL: no memory. */
struct watched *watch_find(struct watch *watch, const char *name, size_t length);
/* Write into the note (@out is a member of it); cut where it is too long. */
void watch_note_text(struct watch *watch, char *out, size_t size, const char *text);
/* The filter is degraded, or is not any more. */
void watch_note_degraded(struct watched *w, bool degraded);
/* @at_ms 0: none waits. */
void watch_note_attempt(struct watched *w, uint64_t at_ms, const char *why);
/* See window_growth_note(). */
void watch_note_growth(struct watched *w, double items_per_second);
/* @rows NULL: they are not known. */
void watch_note_rows(struct watched *w, const struct source_rows *rows, uint64_t now_ms);
#endif
