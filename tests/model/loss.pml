/* SPDX-License-Identifier: MIT */
/* Losses, and the keeper that makes a lost view anew. */

#ifdef LOSE_SHARD
/* DEL, or an eviction, of a shard of the present view wherever it lies. */
inline lose_shard(g_)
{
    if
    :: IS_SHARD(shard[NAME(g_, 0, 0, EPOCH(now))]) -> shard[NAME(g_, 0, 0, EPOCH(now))] = NONE
    :: TO_RENAME(now, g_, 0, 0) && IS_BORN(now, g_, 0) -> made[MADE(views[now].made_by, 0)] = 0
    :: TO_RENAME(now, g_, 0, 0) && !IS_BORN(now, g_, 0) ->
        made_anew[views[now].anew] = 0;
        shard[NAME(g_, 0, 0, EPOCH(now) - 1)] = NONE
    fi;
    lost = g_
}

proctype loss()
{
    byte losses;
    do
    :: atomic { losses < LOSSES -> lose_shard(views[now].current); losses++ }
    :: atomic { losses < LOSSES && views[now].other != 0 -> lose_shard(views[now].other); losses++ }
    od
}
#endif

#ifdef LOSE_VIEW
/* FLUSHALL, or the view alone. */
proctype loss()
{
    byte n;
    if
    :: now = 0
    :: atomic {
           now = 0;
           for (n : 0 .. NAMES - 1) {
               shard[n] = NONE
           }
           for (n : 0 .. TOKENS * SHARDS - 1) {
               made[n] = 0
           }
           n = 0;
           mutex = 0;
           record_generation = 0;
           record_stage = UNSETTLED;
           retiring = 0
       }
    fi
}

/* What a pass of SCAN found: bits of `shard`, then of `made`. */
#define IS_STRING(n) ((n) < NAMES -> IS_SHARD(shard[n]) : made[(n) - NAMES] != 0)
#define STRINGS (NAMES + TOKENS)

/* A pass returns what was there from its beginning to its end; what was renamed meanwhile it may miss. */
inline begin_pass()
{
    found = 0;
    for (n : 0 .. STRINGS - 1) {
        if
        :: IS_STRING(n) -> found = found | (1 << n)
        :: else -> skip
        fi
    }
    n = 0
}

inline end_pass()
{
    for (n : 0 .. STRINGS - 1) {
        if
        :: !IS_STRING(n) -> found = found & ~(1 << n)
        :: else -> skip
        fi
    }
    n = 0
}

inline tombstone_one()
{
    do
    :: (found & (1 << n)) == 0 -> n++
    :: else -> break
    od;
    found = found & ~(1 << n);
    if
    :: n < NAMES -> shard[n] = tombstone
    :: else -> made[n - NAMES] = 0
    fi;
    n = 0
}

#ifdef SWEEP_WITHOUT_LOOKING
#define STILL_OURS true
#else
#define STILL_OURS (mutex == token)
#endif

/* An empty pass is believed only if it was not the first: a shard moves once more at the most, as no view changes. */
#ifdef SWEEP_BELIEVES_FIRST_PASS
#define PASSES 1
#else
#define PASSES 2
#endif

/* admin_make_filter(): fence_sweep(), fence_create(), fence_publish(). */
proctype keeper()
{
    byte token, passes, n;
    int found;
again:
    atomic { now == 0 && mutex == 0 && tokens < TOKENS - 1 -> tokens++; token = tokens; mutex = token }
#ifndef NO_SWEEP
pass:
    atomic { begin_pass() }
    atomic {
        end_pass();
        if
        :: passes < PASSES -> passes++
        :: else -> skip
        fi;
        if
        :: found == 0 && passes == PASSES -> goto publish
        :: found == 0 && passes < PASSES -> goto pass
        :: found != 0 -> passes = PASSES
        fi
    }
    atomic {
        if
        :: STILL_OURS -> skip
        :: else -> goto over
        fi
    }
    do
    :: atomic { found != 0 -> tombstone_one() }
    :: found == 0 -> goto pass
    od;
publish:
#endif
    atomic { /* publish.lua */
        if
        :: mutex == token && now == 0 ->
            latest++;
            views[latest].epoch = EPOCHS + 1;
            views[latest].current = 1;
            views[latest].layers = 1;
            views[latest].last = 1;
            views[latest].born = 1;
            views[latest].made_by = token;
            made[MADE(token, 0)] = LAYER(1, 0);
            now = latest;
            fenced = 0;
            retiring = 0;
            record_generation = 0;
            record_stage = UNSETTLED;
            builds = BUILDS
        :: else -> skip
        fi
    }
over:
    atomic {
        if
        :: mutex == token -> mutex = 0
        :: else -> skip
        fi;
        token = 0;
        found = 0;
        passes = 0;
        goto again
    }
}
#endif

#ifdef LOSE_CHANGES
/* The home node comes back with an earlier view; shards lie on other nodes. Who remembers a later one may put it back. */
proctype loss()
{
    atomic {
        now > 1;
        do
        :: now > 1 -> now--
        :: now < latest -> break
        od;
        fenced = EPOCH(now);
        mutex = 0;
        retiring = 0;
        if
        :: record_generation = 0; record_stage = UNSETTLED
        :: skip
        fi;
        behind = 1
    }
    do
    :: atomic { behind && now < latest -> now++; fenced = EPOCH(now) - 1 }
    od
}

#define EPOCH_OF(n) ((n) % (INCARNATIONS * EPOCHS))
#define GENERATION_OF(n) ((n) / (INCARNATIONS * EPOCHS * SHARDS * LAYERS) + 1)
#ifdef NO_JUMP
#define RECONCILED (EPOCH(now) + 1)
#else
#define RECONCILED (EPOCHS + 1)
#endif

/* The next one that a survey finds under an earlier epoch, and of which @is_ is true. */
inline find(is_)
{
    n = 0;
    do
    :: n < NAMES && !(IS_SHARD(shard[n]) && EPOCH_OF(n) < EPOCH(now) && is_) -> n++
    :: else -> break
    od
}

/* What a survey finds: the largest epoch of each generation of the view. */
inline weigh()
{
    top = 0;
    other_top = 0;
    for (n : 0 .. NAMES - 1) {
        if
        :: IS_SHARD(shard[n]) && GENERATION_OF(n) == views[now].current && EPOCH_OF(n) > top -> top = EPOCH_OF(n)
        :: IS_SHARD(shard[n]) && GENERATION_OF(n) == views[now].other && EPOCH_OF(n) > other_top ->
            other_top = EPOCH_OF(n)
        :: else -> skip
        fi
    }
    n = 0
}

/* keeper_reconcile.c, and fence_gather(); a survey is one step. */
proctype reconciler()
{
    byte n, top, other_top, keep;
    atomic { /* reconcile.lua */
        behind && mutex == 0 ->
        weigh();
        keep = views[now].current;
        if
        :: views[now].other != 0 && other_top > top -> keep = views[now].other
        :: else -> skip
        fi;
        latest++;
        views[latest].epoch = RECONCILED;
        views[latest].current = keep;
        views[latest].layers = 1;
        views[latest].last = views[latest - 1].last;
        now = latest;
        doubtful = keep;
        behind = 0;
        fenced = 0;
        retiring = 0;
        record_generation = 0;
        record_stage = UNSETTLED;
        builds = BUILDS;
        top = 0;
        other_top = 0
    }
#ifndef ORPHANS_STAY
#ifndef ORPHANS_LAST
    do
    :: atomic { find(GENERATION_OF(n) != keep); if :: n == NAMES -> break :: else -> shard[n] = tombstone fi }
    od;
#endif
#endif
    do
    :: atomic {
           find(GENERATION_OF(n) == keep);
           if
           :: n == NAMES -> break
           :: n < NAMES && IS_SHARD(shard[NAME(keep, 0, 0, EPOCH(now))]) -> shard[n] = tombstone
           :: else -> shard[NAME(keep, 0, 0, EPOCH(now))] = shard[n]; shard[n] = tombstone
           fi
       }
    od;
#ifdef ORPHANS_LAST
    do
    :: atomic { find(GENERATION_OF(n) != keep); if :: n == NAMES -> break :: else -> shard[n] = tombstone fi }
    od;
#endif
    atomic {
        for (n : 0 .. TOKENS * SHARDS - 1) {
            made[n] = 0
        }
        n = 0;
        fenced = EPOCH(now)
    }
}
#endif
