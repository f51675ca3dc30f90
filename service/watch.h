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

/* What the keeper last found of a filter that is not in Redis; a copy. */
struct keeper_note {
    uint64_t lost_shards;
    uint64_t lost_generation; /* the generation that they belong to */
    struct source_rows rows;  /* of the source, as last looked up */
    uint64_t rows_ms;         /* when, wall clock; 0: not yet, or not the last time */
    char postgres[256];       /* "" where it answers or is not needed */
    char problem[512];        /* why the filter is not as it should be; "" */
    char wanted[256];         /* why an expansion is wanted that waits for the filter's window; "" */
};

/* The keeper's memory; made before any thread that uses it, freed after the last. NULL: no memory. */
struct watch *watch_new(void);
void watch_free(struct watch *watch);

struct keeper_note keeper_note(struct service *s, const char *name, size_t length);

/* One filter. Lives as long as the watch; but for `seen`, what operations mark and the note it is the
 * keeper's alone. */
struct watched {
    struct watch *watch;
    char *name;
    size_t length;
    uint64_t rows_at; /* when the source was last asked */
    uint64_t looks;   /* how often it has answered */
    struct threshold_dead dead;
    uint64_t lost_at;
    uint64_t seen;    /* the incarnation of the view that it had once; 0: none */
    uint64_t dropped; /* the last incarnation that was deleted */
    uint64_t round;   /* of the keeper, in which it was looked at */
    bool look_for_lost;
    uint64_t lost_generation; /* in which an operation found a shard lost */
    bool checked;             /* the source's table and columns were found fit */
    time_t schedule_from;
    uint64_t made_at, started_at, dropped_at; /* see is_hasty() */
    struct window_growth growth;
    uint64_t source, schedule; /* as configured, hashed; see follow() */
    struct keeper_note note;
    struct watched *next;
};

/* All entries, from one to the next by `next`: it does not change. NULL: there is none. */
struct watched *watch_first(struct watch *watch);
/* The entry of a filter, made if needed. NULL: no memory. */
struct watched *watch_find(struct watch *watch, const char *name, size_t length);
/* Write into the note (@out is a member of it); cut where it is too long. */
void watch_note_text(struct watch *watch, char *out, size_t size, const char *text);
/* True where an operation has found a shard lost since the last call, in *@generation. */
bool watch_take_lost(struct watched *w, uint64_t *generation);
/* It could not be looked at: @told is what was taken. */
void watch_give_back_lost(struct watched *w, bool told);
void watch_note_lost(struct watched *w, uint64_t generation, uint64_t lost);
/* @rows NULL: they are not known. */
void watch_note_rows(struct watched *w, const struct source_rows *rows, uint64_t now_ms);
#endif
