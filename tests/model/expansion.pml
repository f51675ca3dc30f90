/* SPDX-License-Identifier: MIT */
/* Expansions under coordinators and drivers that may stop between any two commands. One key. Each atomic step is one
 * command or script of Redis, or one statement of Postgres; a process that is never scheduled again is one that was
 * killed or stopped. README.md names the code behind each part.
 *
 * Property: once the key's add is acknowledged and its row is committed, no check says "no"; and nobody takes a shard for
 * lost that is not (not looked at with -DIGNORE_LOSS). A mutation (-D...) is a variant of the protocol. */

/* How much happens. */
#ifndef BUILDS
#define BUILDS 1 /* expansions that are wanted */
#endif
#ifndef CURRENT_GROWS
#define CURRENT_GROWS 0 /* layers for the generation that is read */
#endif
#ifndef OTHER_GROWS
#define OTHER_GROWS 0 /* for the one that is being built */
#endif
#ifndef ROLLBACKS
#define ROLLBACKS 0
#endif
#ifndef EXPIRIES
#define EXPIRIES 1 /* of a lease before its owner gives it back */
#endif
#ifndef ACQUIRES
#define ACQUIRES (EXPIRIES + 1) /* of the mutex */
#endif
#ifndef REFILLS
#define REFILLS 0 /* times that the key's shard is given up and made anew, lost or not */
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef SHARDS
#define SHARDS 1 /* of a layer; the key's is the first */
#endif
#if CURRENT_GROWS > 1
#define LAYERS 3 /* that a generation may have */
#elif CURRENT_GROWS + OTHER_GROWS > 0
#define LAYERS 2
#else
#define LAYERS 1
#endif

#include "redis.pml"
#include "coordinator.pml"
#include "driver.pml"
#include "loss.pml"

init {
    atomic {
#ifdef REDUCED
        tombstone = NONE;
#else
        if
        :: tombstone = TOMBSTONE
        :: tombstone = NONE
        fi;
#endif
        views[1].epoch = 1;
        views[1].current = 1;
        views[1].layers = 1;
        views[1].last = 1;
        now = 1;
        latest = 1;
        fenced = 1;
        shard[NAME(1, 0, 0, 1)] = EMPTY;
#if SHARDS > 1
        shard[NAME(1, 0, 1, 1)] = EMPTY;
#endif
        run postgres();
#ifdef ONE_COORDINATOR
        run operation(0);
        run operation(1);
        run reloader();
#else
        run writer();
#ifdef TWO_WRITERS
        run writer(); /* on another coordinator */
#endif
#endif
        run checker();
        run anybody();
        run driver(0);
        run driver(1);
        run lease()
#ifdef LOSE
        ;
        run loss()
#endif
#ifdef LOSE_CHANGES
        ;
        run reconciler()
#endif
#ifdef LOSE_VIEW
        ;
        run keeper();
        run keeper()
#endif
    }
}
