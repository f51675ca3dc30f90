/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEEPER_INTERNAL_H
#define SERVICE_KEEPER_INTERNAL_H
/* What the files of the keeper share: keeper.c (the thread, one look at one filter), keeper_lost.c
 * (shards that are lost), keeper_recount.c (counts that are lost), keeper_source.c (the rows of its source),
 * keeper_reconcile.c (views that went back), keeper_thresholds.c (whether it should be rebuilt). */
#include <stdbool.h>
#include <stdint.h>
#include "service/config/config.h"
#include "service/keeper.h"
#include "shard/fence.h"
#include "shard/lineage.h"

/* A server that draws a new lineage without losing anything: @id goes on from @from. */
struct keeper_heir {
    uint64_t from, id;
};

enum { KEEPER_HEIRS = 256 };

struct keeper {
    struct service *service;
    const struct config *config; /* held for one round */
    struct link *link;
    struct fence fence;
    struct view view;
    struct view scratch;
    uint64_t round;
    uint64_t looked_at, slept; /* when it last looked at all; how often that was long ago */
    struct lineages masters;   /* as last looked at */
    struct lineages known;     /* what each master was when it last answered */
    bool masters_known;        /* that look succeeded */
    uint64_t masters_at;
    bool master_away;                   /* one did not answer then */
    uint64_t outages;                   /* how often all of them were back after that */
    uint64_t count_pass, count_pass_at; /* over all filters, of keeper_recount(): its number, when it began */
    uint64_t counted_us;                /* that counting has taken in this round */
    bool count_waits;                   /* a filter waits for the next round to be counted */
    unsigned heir_count;                /* that there have ever been: the last ones are kept */
    struct keeper_heir heir[KEEPER_HEIRS];
    /* Of the filter that is looked at: it needs a build or a healing, and the last one's end holds the next
     * up until then, wall clock; 0: it is not so. */
    uint64_t held_until_ms;
    char held_why[160];
    bool listed;          /* the filter that is looked at is in P:filters */
    uint64_t next_due_ms; /* the earliest time to come at which a filter is to be deleted; 0: none */
};

/* --- keeper.c --- */
/* What fails ends with the release of a mutex, and each release wakes the keepers of all coordinators: what
 * was tried at @at is not tried again at once, or they would call each other for ever. */
bool keeper_is_hasty(const struct keeper *k, uint64_t at);
/* Why the filter is not as it should be; "": it is. */
void keeper_problem(struct watched *w, const char *text);
/* Start a job. True if it was begun. */
bool keeper_start(struct keeper *k, struct watched *w, const char *reason, const char *trigger,
                  enum job_kind kind);

/* --- keeper_reconcile.c --- */
/* k->view may be older than the shards it names: have it put back, or reconciled. @look: survey the shards.
 * True where it is, or where that is not known: then nothing else is to be concluded from it now; k->view is
 * the present one. */
bool keeper_look_for_later(struct keeper *k, struct watched *w, bool look);

/* Nothing is stored of the filter: put back what this process remembers, if it has no source and shards of it
 * have survived. True where something was put back. */
bool keeper_put_back_gone(struct keeper *k, struct watched *w);

/* Tell the masters which view is the latest, as k->view says, where they do not know, and learn what they
 * know. True where one that is later than k->view has been in use. */
bool keeper_learn_latest(struct keeper *k, struct watched *w);

/* The same where masters are suspect: the home node may be among them. Once for a view and these masters. */
bool keeper_look_behind_suspects(struct keeper *k, struct watched *w);

/* --- keeper_lost.c --- */
/* Count the shards of the generation in use that are not where k->view says: into w->note. Not too often, or
 * when an operation has met one. */
void keeper_look_for_lost(struct keeper *k, struct watched *w);
/* The next look counts anew. */
void keeper_forget_lost(struct watched *w);

/* --- keeper_recount.c --- */
/* The sum of the replication ids of the masters that answered: another one where one of them is another. */
uint64_t keeper_masters_sum(const struct keeper *k);
/* A round begins. */
void keeper_recount_begin(struct keeper *k);
/* Where it is its turn, compare the counts of the generation in use with its bits, and raise those that are
 * too small. k->view is fenced and no job runs. */
void keeper_recount(struct keeper *k, struct watched *w);

/* --- keeper_source.c --- */
/* A reload may have given the filter another source or schedule: what was found of the one before is void. */
void keeper_follow(struct watched *w, const struct config_filter *c);
/* Take what a look at the source has found, and have it looked at again, not too often. Waits for nothing. */
void keeper_look_at_source(struct keeper *k, struct watched *w, const struct config_filter *c);

/* --- keeper_trust.c --- */
/* Once a round: who the masters are. */
void keeper_look_at_masters(struct keeper *k);
/* Whether the masters that may hold something of the filter of k->view are trusted by it. True: some are not,
 * and answers are not no; w->note says which. */
bool keeper_has_suspects(struct keeper *k, struct watched *w);
/* What k->view trusts is older than what was in use: its filter trusts nobody from now on, until it is healed
 * or accepted. False: that could not be written. */
bool keeper_trust_none(struct keeper *k, struct watched *w);
/* What to do about that: start a job that heals, or say how an operator can. No job runs. */
void keeper_heal(struct keeper *k, struct watched *w, bool sourced);

/* --- keeper_thresholds.c --- */
/* Whether the filter's job is under way, by its record: of any coordinator; without the mutex it is
 * unfinished. */
enum err keeper_job_runs(struct keeper *k, bool *runs, struct error *e) MUST_CHECK;
/* Start a job that a threshold or the schedule asks for, or one that was left unfinished. No job runs. */
void keeper_look_at_thresholds(struct keeper *k, struct watched *w, const struct config_filter *c);
/* Note k->held_until_ms and the reason. */
void keeper_note_held(const struct keeper *k, struct watched *w);
/* Note what waits for the filter's window; "": nothing. */
void keeper_note_wanted(struct watched *w, const char *text);
#endif
