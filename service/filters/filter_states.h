/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_FILTER_STATES_H
#define SERVICE_CONTROL_FILTER_STATES_H
/* What is known of the filters between two looks: kept by the controller, read by the admin thread. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "base/error.h"
#include "expansion/decide/threshold.h"
#include "expansion/decide/window.h"
#include "migrate/source/source.h"

/* What the controller last found of a filter that is not in Redis; a copy. */
struct filter_note {
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

/* The controller's memory; made before any thread that uses it, freed after the last. NULL: no memory. */
struct filter_states *filter_states_new(void);
void filter_states_free(struct filter_states *watch);

struct filter_note filter_states_note(struct filter_states *watch, const char *name, size_t length);

/* Filters that this process has seen: one whose view is missing afterwards was lost, it is not "never made",
 * unless that incarnation was deleted. @states: a struct filter_states. */
void filter_states_on_seen(void *states, const char *name, size_t length, uint64_t incarnation);
void filter_states_on_dropped(struct filter_states *watch, const char *name, size_t length,
                              uint64_t incarnation);
/* The incarnation; 0: none was. */
uint64_t filter_states_seen(struct filter_states *watch, const char *name, size_t length);

/* One filter. The controller alone forgets it; but for `seen`, `dropped` and the note it is the
 * controller's alone. */
struct filter_state {
    struct filter_states *watch;
    char *name;
    size_t length;
    struct source_look *look; /* at the source, under way; NULL: none. Ours; see sources.h */
    uint64_t look_source;     /* the source that it is at, as @source */
    uint64_t rows_at;         /* when a look was last asked for */
    uint64_t looks;           /* how often the source has answered */
    struct threshold_dead dead;
    uint64_t seen;        /* the incarnation of the view that it had once; 0: none */
    uint64_t dropped;     /* the last incarnation that was deleted */
    uint64_t round;       /* of the controller, in which it was looked at */
    uint64_t lost_shards; /* missing in Redis, as was told last */
    bool checked;         /* the source's table and columns were found fit */
    time_t schedule_from;
    uint64_t made_at, started_at, dropped_at; /* see controller_is_rate_limited() */
    struct window_growth growth;
    uint64_t source, schedule; /* as configured, hashed; see follow() */
    struct filter_note note;
    struct filter_state *next; /* of the hash chain */
};

/* For the controller: the entry behind @w, the first one where @w is NULL. NULL: there is none. */
struct filter_state *filter_states_next(struct filter_states *watch, const struct filter_state *w);
/* For the controller: forget the entries of filters that are deleted, or were never there, and that it has
 * not looked at since round @round. */
void filter_states_forget(struct filter_states *watch, uint64_t round);
/* The incarnation of the view that it had; 0: none. */
uint64_t filter_state_seen(struct filter_state *w);
/* For the controller: the entry of a filter, made if needed. NULL: no memory. */
struct filter_state *filter_states_find(struct filter_states *watch, const char *name, size_t length);
/* Write into the note (@out is a member of it); cut where it is too long. */
void filter_states_note_text(struct filter_states *watch, char *out, size_t size, const char *text);
/* The filter is degraded, or is not any more. */
void filter_state_note_degraded(struct filter_state *w, bool degraded);
/* @at_ms 0: none waits. */
void filter_state_note_attempt(struct filter_state *w, uint64_t at_ms, const char *why);
/* See window_growth_note(). */
void filter_state_note_growth(struct filter_state *w, double items_per_second);
/* @rows NULL: they are not known. */
void filter_state_note_rows(struct filter_state *w, const struct source_rows *rows, uint64_t now_ms);
#endif
