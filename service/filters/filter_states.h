/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_FILTERS_FILTER_STATES_H
#define SERVICE_FILTERS_FILTER_STATES_H
/* What is known about filters between two looks: written by the controller, read by the admin threads and the
 * heartbeat. That includes the version of each filter's view (for people: its "epoch") that this coordinator
 * serves, and the one in Redis. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>
#include "base/buffer.h"
#include "base/error.h"
#include "expansion/decide/threshold.h"
#include "expansion/decide/window.h"
#include "migrate/source/source.h"
#include "service/meter/fills.h"

/* The controller's last findings that are not in Redis; a copy. */
struct filter_note {
    uint64_t degraded_ms;     /* wall clock, since when it is degraded; 0: it is not */
    struct source_rows rows;  /* rows of the source, as last counted */
    uint64_t rows_ms;         /* wall clock, when; 0: never, or the last look failed */
    double growth;            /* keys, or rows of the source, added per second; 0: unknown, or none */
    char postgres[256];       /* error of Postgres; "": none, or not needed */
    char problem[512];        /* what is wrong with the filter; "": nothing */
    bool is_lost;             /* it has no view in Redis, though nobody has deleted it */
    char wanted[256];         /* why an expansion that waits for the window is wanted; "" */
    uint64_t next_attempt_ms; /* wall clock: start of a rebuild that it needs; 0: none waits */
    char next_attempt_why[160];
};

/* The controller's memory; make it before any thread that uses it, free it after the last. NULL: no
 * memory. */
struct filter_states *filter_states_new(void);
void filter_states_free(struct filter_states *watch);

struct filter_note filter_states_note(struct filter_states *watch, const char *name, size_t length);

/* Samples of a filter's fill (fills.h), of up to STATES_SAMPLED_MAX filters at a time, as long as there is an
 * entry. From any thread. */
enum { STATES_SAMPLED_MAX = 1000 };
void filter_states_sample(struct filter_states *watch, const char *name, size_t length, uint64_t incarnation,
                          const struct fill *one);
size_t filter_states_samples(struct filter_states *watch, const char *name, size_t length,
                             struct fill out[FILLS_MAX]);

/* Append the names of lost filters, each behind its length, a size_t. Returns their number. */
size_t filter_states_lost(struct filter_states *watch, struct buffer *names);

/* Filters that this process has seen: one whose view is missing afterwards was lost, it is not "never made",
 * unless that incarnation was deleted. */
void filter_states_on_seen(struct filter_states *watch, const char *name, size_t length,
                           uint64_t incarnation);
void filter_states_on_dropped(struct filter_states *watch, const char *name, size_t length,
                              uint64_t incarnation);
/* The incarnation; 0: none was. */
uint64_t filter_states_seen(struct filter_states *watch, const char *name, size_t length);

struct filter_version {
    uint64_t incarnation, epoch; /* epoch 0: none */
};

/* One filter. Only the controller uses and frees it; other threads use `seen`, `dropped`, `told`, `fills`,
 * and what is for the heartbeat. */
struct filter_state {
    struct filter_states *watch;
    struct source_look *look;      /* under way; NULL: none; owned; see sources.h */
    uint64_t look_source;          /* the source of the look, as @source */
    uint64_t rows_at;              /* when a look was last requested */
    uint64_t looks;                /* number of replies from the source */
    uint64_t given;                /* as in struct source_facts, at the last look; 0: unknown */
    struct source_history history; /* likewise */
    uint64_t rebuilt_from;         /* the system that the last rebuild has read; 0: unknown, or none was */
    struct threshold_dead dead;
    struct threshold_older older;
    uint64_t seen;        /* incarnation of the last view seen; 0: none */
    uint64_t dropped;     /* last incarnation that was deleted */
    uint64_t round;       /* the controller's round in which it was last examined */
    uint64_t lost_shards; /* missing in Redis, as last logged */
    bool checked;         /* the source's table and columns were valid */
    time_t schedule_from;
    uint64_t made_at, started_at, dropped_at; /* see controller_is_rate_limited() */
    uint64_t sampled_at;                      /* its fill, by the controller; monotonic us, 0: never */
    struct fills *fills;                      /* NULL: no sample yet */
    struct window_growth growth;
    uint64_t source, schedule; /* hash of the configuration; see controller_follow() */
    struct filter_note note;   /* the controller's */
    struct filter_note told;   /* the copy for other threads */
    /* For the heartbeat: */
    struct filter_version found; /* the view in Redis, as far as known */
    struct filter_version served;
    bool changed, behind, reported; /* reported: an epoch other than 0 was taken */
    unsigned times_behind;
    TAILQ_ENTRY(filter_state) changed_link;
    TAILQ_ENTRY(filter_state) behind_link;
    struct filter_state *next; /* next entry of the hash chain */
    size_t length;
    char name[]; /* and a NUL */
};

/* For the controller: the entry behind @w; @w NULL: the first one. NULL: there is none. */
struct filter_state *filter_states_next(struct filter_states *watch, const struct filter_state *w);
/* For the controller: drop the entries of filters that are deleted or never existed, and that were not
 * examined since round @round. */
void filter_states_forget(struct filter_states *watch, uint64_t round);
/* For the controller: the entry of a filter, made if needed. NULL: no memory. */
struct filter_state *filter_states_find(struct filter_states *watch, const char *name, size_t length);
/* For the controller: show others the note as it is now. */
void filter_state_tell(struct filter_state *w);
/* For the controller: this version is served from now on; @epoch 0: none. Nothing if another thread has
 * deleted that incarnation since the look. Redis has this version. */
void filter_state_serve(struct filter_state *w, uint64_t incarnation, uint64_t epoch);
void filter_state_found(struct filter_state *w, uint64_t incarnation, uint64_t epoch);

/* --- for the heartbeat; names are escaped, as in names of keys --- */

struct filter_states_total {
    uint64_t filters; /* number of filters served */
    uint64_t behind;  /* of these: those whose view is not the one in Redis */
};
struct filter_states_total filter_states_total(struct filter_states *watch);

/* Called with the lock held for each change of what is served since the last call, for at most @most filters;
 * @epoch 0: none is served. Returns the number. */
typedef void filter_states_change_fn(void *arg, const char *filter, uint64_t incarnation, uint64_t epoch);
size_t filter_states_changes(struct filter_states *watch, size_t most, filter_states_change_fn *fn,
                             void *arg);
/* Report all filters once more. */
void filter_states_report_again(struct filter_states *watch);

/* Called with the lock held for at most @most filters that are behind: the epoch in Redis, and at how many
 * consecutive calls, this one included, the filter was behind. */
typedef void filter_states_behind_fn(void *arg, const char *filter, uint64_t epoch, unsigned times);
void filter_states_behind(struct filter_states *watch, size_t most, filter_states_behind_fn *fn, void *arg);
#endif
