/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_WATCH_H
#define SERVICE_WATCH_H
/* What is known of the filters between two looks: kept by the keeper, read by the admin thread, marked by
 * workers. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "base/error.h"
#include "expansion/threshold.h"
#include "expansion/window.h"
#include "migrate/source.h"
#include "service/service.h"
#include "shard/catalog.h"

/* What the keeper last found of a filter that is not in Redis; a copy. */
struct keeper_note {
    uint64_t lost_shards;
    uint64_t lost_generation; /* the generation that they belong to */
    uint64_t lost_epoch;      /* of the view under whose names they were not found: void under another */
    bool lost_somewhere;      /* an operation has met one that a look at all of them does not find */
    char lost_where[256];     /* which, for people; "": not known */
    uint64_t lost_ms;         /* since when, wall clock */
    struct source_rows rows;  /* of the source, as last looked up */
    uint64_t rows_ms;         /* when, wall clock; 0: not yet, or not the last time */
    double growth;            /* keys, or rows of the source, that came in a second; 0: unknown, or none */
    char postgres[256];       /* "" where it answers or is not needed */
    char problem[512];        /* why the filter is not as it should be; "" */
    char wanted[256];         /* why an expansion is wanted that waits for the filter's window; "" */
    uint64_t next_attempt_ms; /* a build or a healing that it needs begins then, wall clock; 0: none waits */
    char next_attempt_why[160];
    char suspects[256];      /* masters that the filter does not trust; "" */
    uint64_t suspects_ms;    /* since when, wall clock */
    uint64_t suspects_trust; /* trusted_ms of the view by which they are suspect */
};

/* The keeper's memory; made before any thread that uses it, freed after the last. NULL: no memory. */
struct watch *watch_new(void);
void watch_free(struct watch *watch);

struct keeper_note keeper_note(struct service *s, const char *name, size_t length);

/* One filter. The keeper alone forgets it; but for `seen`, `known`, what operations mark and the note it is
 * the keeper's alone. */
struct watched {
    struct watch *watch;
    char *name;
    size_t length;
    struct source_look *look; /* at the source, under way; NULL: none. Ours; see sources.h */
    uint64_t look_source;     /* the source that it is at, as @source */
    uint64_t rows_at;         /* when a look was last asked for */
    uint64_t looks;           /* how often the source has answered */
    struct threshold_dead dead;
    uint64_t lost_at;
    uint64_t shards_at;      /* when the counts of single shards were last looked at */
    uint64_t counted_in;     /* the pass in which counts were last compared with bits; 0: never */
    uint64_t count_again_at; /* when they are to be compared once more, mono µs; 0: in the next pass */
    uint64_t counted_by;     /* by incarnation, masters and outages, as one number */
    bool counts_short;       /* a count was too small then */
    uint64_t named;          /* the incarnation that was seen to be in the registries */
    uint64_t seen;           /* the incarnation of the view that it had once; 0: none */
    uint64_t dropped;        /* the last incarnation that was deleted */
    uint64_t round;          /* of the keeper, in which it was looked at */
    uint64_t surveyed;       /* the view and the masters by which nothing lay under a later epoch, hashed */
    struct view_stamp known; /* the latest view, as seen, or as noted by masters (shard/latest.h) */
    uint64_t noted;          /* the view and the masters that were told of it, hashed */
    uint64_t noted_at;
    uint64_t suspect_home; /* the lineage of a home node that was not trusted, and that the view tells of */
    struct view *latest;   /* of the incarnation that was seen last; NULL: none */
    uint64_t latest_ms;    /* when it was last found in Redis, wall clock */
    bool look_for_lost;
    bool look_for_later; /* for shards under a later epoch than the view's */
    uint64_t
        behind_since; /* the view is older than its shards, and nobody remembers a newer one; 0: it is not */
    uint64_t sure_incarnation;    /* nothing lay under a later epoch than */
    uint64_t sure_epoch, sure_at; /* this one, then */
    struct lost_shard lost;       /* that an operation has found */
    bool checked;                 /* the source's table and columns were found fit */
    time_t schedule_from;
    uint64_t made_at, started_at, dropped_at; /* see is_hasty() */
    struct window_growth growth;
    unsigned suspect_slots;    /* most that suspect masters of a cluster have held; 0: there are none */
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
/* True where an operation has found a shard lost since the last call. *@last is where one was found lost the
 * last time, whether that is since then or not. */
bool watch_take_lost(struct watched *w, struct lost_shard *last);
/* It could not be looked at: @told is what was taken. */
void watch_give_back_lost(struct watched *w, bool told);
/* @lost shards of @v's generation in use, @where for people; @somewhere: see the note. */
void watch_note_lost(struct watched *w, const struct view *v, uint64_t lost, bool somewhere,
                     const char *where);
/* The filter, a log, is degraded, or is not any more. */
void watch_note_degraded(struct watched *w, bool degraded);
/* Shards of @v's generation in use that are lost by @note, or are made anew by @v itself. */
uint64_t watch_lost_shards(const struct keeper_note *note, const struct view *v);
/* @at_ms 0: none waits. */
void watch_note_attempt(struct watched *w, uint64_t at_ms, const char *why);
/* @text "": none. @trusted_ms: of the view. */
void watch_note_suspects(struct watched *w, const char *text, uint64_t trusted_ms);
/* What is remembered of the view @v's incarnation, if that is later than @v. */
bool watch_later_view(struct watched *w, const struct view *v, struct view *out);
/* @v is what is stored, as the keeper found it: it is remembered where it is the latest. */
void watch_remember(struct watched *w, const struct view *v);
/* Masters have noted that. */
void watch_learn(struct watched *w, const struct view_stamp *stamp);
/* What is remembered of a filter without a source of which nothing is stored now. False: nothing; or it is so
 * long ago that a marker of its deletion may have expired. */
bool watch_remembers(struct watched *w, struct view *out);
/* True where somebody has asked to look for shards of later epochs since the last call. */
bool watch_take_doubt(struct watched *w);
void watch_give_back_doubt(struct watched *w);
/* There are none later than @v's. */
void watch_note_sure(struct watched *w, const struct view *v);
/* See window_growth_note(). */
void watch_note_growth(struct watched *w, double items_per_second);
/* @rows NULL: they are not known. */
void watch_note_rows(struct watched *w, const struct source_rows *rows, uint64_t now_ms);
#endif
