/* SPDX-License-Identifier: MIT */
/* What lies in Redis and Postgres, and the commands that more than one process gives. A shard's name holds generation,
 * layer, number and epoch; an epoch here counts on through the incarnations, so it stands for both. */

/* --- sizes --- */

#ifndef FIRST_EPOCHS
#define FIRST_EPOCHS (1 + 3 * BUILDS + 2 * CURRENT_GROWS + OTHER_GROWS + 2 * ROLLBACKS + REFILLS)
#endif
#define EPOCHS (FIRST_EPOCHS + 1) /* of an incarnation; the first is 1 */
#ifdef LOSE_CHANGES
#define GENERATIONS (2 * BUILDS + 1) /* what is reconciled is rebuilt */
#else
#define GENERATIONS (BUILDS + 1)  /* of an incarnation; the first is 1 */
#endif
#if defined(LOSE_VIEW) || defined(LOSE_CHANGES)
#define INCARNATIONS 2 /* or epochs before and after a view is reconciled */
#else
#define INCARNATIONS 1
#endif
#if defined(CHANGE_UNCHECKED) || defined(EPOCH_NOT_COMPARED)
#define VIEWS (2 * EPOCHS) /* two of the same epoch */
#else
#define VIEWS (INCARNATIONS * EPOCHS)
#endif
#define TOKENS (ACQUIRES + 1)

/* --- shards --- */

#define NONE 0
#define EMPTY 1 /* tagged, without the key's bits */
#define FULL 2  /* tagged, with them */
#define TOMBSTONE 3
#define ZOMBIE 4 /* without the tag: a BITFIELD on a missing key made it */
#define IS_SHARD(kind) ((kind) == EMPTY || (kind) == FULL)

#ifdef NO_EPOCH_IN_NAMES
#define NAMED(e) 0
#elif defined(NO_INCARNATION)
#define NAMED(e) ((e) % EPOCHS)
#else
#define NAMED(e) (e)
#endif
#define NAME(g, l, s, e) (((((g) - 1) * LAYERS + (l)) * SHARDS + (s)) * INCARNATIONS * EPOCHS + NAMED(e))
#define NAMES (GENERATIONS * LAYERS * SHARDS * INCARNATIONS * EPOCHS)
byte shard[NAMES];

/* Under .n<token>: which layer of which generation was made there; 0: nothing. Always without the key. */
#define LAYER(g, l) ((g) * LAYERS + (l))
#define MADE(t, s) ((t) * SHARDS + (s))
byte made[TOKENS * SHARDS];

/* Under the name of one attempt to make the shard of the first layer anew; always without the key. */
bit made_anew[REFILLS + 1];
byte refills; /* attempts */

byte tombstone; /* what is seen of one: TOMBSTONE, or NONE where its time is over */

/* --- view, mutex, record --- */

#define STEADY 0 /* and OVERFLOW_OPEN, OVERFLOW: a second layer, `opening` or not */
#define BUILDING 1
#define SWITCHED 2

typedef View {
    byte epoch;
    byte phase;
    byte current; /* generation */
    byte other;   /* the alternate generation; 0: none */
    byte layers;  /* of current */
    byte other_layers;
    bit opening;  /* the layer before the newest is written */
    bit other_opening;
    byte born;    /* generation whose newest layer comes from its .n<made_by> name; 0: none */
    byte made_by;
    byte left;    /* generation that left with this view: its shards lie under the epoch before */
    byte left_layers;
    byte last;    /* generation number that was given out last */
    byte unsure;  /* generation whose first shard does not hold all rows; 0: none */
    byte anew;    /* attempt from whose name that shard comes with this view; 0: it lives on */
}

View views[VIEWS]; /* all that ever were, so whoever sleeps knows one of them by its place */
byte now;          /* the one in Redis; 0: lost */
byte latest;       /* that was published */
byte fenced;       /* epoch */
byte retiring;     /* the view with which it left; 0: nothing is retiring */

#define EPOCH(w) views[w].epoch
#define IS_PRESENT(w) (now != 0 && EPOCH(now) == EPOCH(w))
#define IS_FENCED(w) (fenced == EPOCH(w))
#if defined(RECONCILED_SAYS_NO)
#define PLACEHOLDER(w) false
#elif defined(LOSE_CHANGES)
#define PLACEHOLDER(w) (EPOCH(w) > EPOCHS && views[w].current == doubtful)
#else
#define PLACEHOLDER(w) (EPOCH(w) > EPOCHS && views[w].current == 1) /* built=0: never "no" */
#endif
#ifdef ANEW_SAYS_NO
#define IS_UNSURE(w) false
#else
#define IS_UNSURE(w) (views[w].unsure == views[w].current)
#endif
#define WRITTEN(w) (views[w].layers - 1 - views[w].opening)
#define OTHER_WRITTEN(w) (views[w].other_layers - 1 - views[w].other_opening)

#if defined(LOSE_SHARD) || defined(LOSE_VIEW) || defined(LOSE_CHANGES)
#define LOSE
byte lost; /* generation of the present incarnation whose shard was lost; 0: none */
#endif

#ifdef LOSE_CHANGES
bit behind;    /* home came back with older data, and the view is not reconciled */
byte doubtful; /* the generation that was kept then; 0: none yet */
#define IS_BEHIND (behind != 0)
#else
#define IS_BEHIND false
#endif

byte mutex; /* token of the holder; 0: free */
byte tokens;
byte expiries;
byte record_generation;
byte record_stage;
#define UNSETTLED 0
#define SETTLED 1
#define SCANNED 2

/* --- Postgres: the row of the key --- */

#define BEFORE 0
#define OPEN 1
#define COMMITTED 2
byte transaction;

bit acknowledged;
#define PROMISED (acknowledged && transaction == COMMITTED)

/* --- rename.lua --- */

#define NEWEST(w, g) ((views[w].current == (g) -> views[w].layers : views[w].other_layers) - 1)
#define IS_BORN(w, g, l) (views[w].born == (g) && (l) == NEWEST(w, g))
#define IS_ANEW(w, g, l, s)                                                                                           \
    (views[w].anew != 0 && views[w].unsure == (g) && (l) == 0 && (s) == 0 && made_anew[views[w].anew])
#define OLD_IS_SHARD(w, g, l, s)                                                                                      \
    (IS_BORN(w, g, l) -> made[MADE(views[w].made_by, s)] == LAYER(g, l)                                               \
                       : IS_ANEW(w, g, l, s) || IS_SHARD(shard[NAME(g, l, s, EPOCH(w) - 1)]))
#ifdef RENAME_REFUSES_ZOMBIE
#define MAY_TAKE(kind) ((kind) == NONE)
#else
#define MAY_TAKE(kind) ((kind) == NONE || (kind) == ZOMBIE)
#endif
#define TO_RENAME(w, g, l, s)                                                                                         \
    ((g) != 0 && (l) <= NEWEST(w, g) && MAY_TAKE(shard[NAME(g, l, s, EPOCH(w))]) && OLD_IS_SHARD(w, g, l, s))

/* A fence is done when no shard of the view is left to be renamed. */
#if LAYERS > 2
#define LAYERS_TO_RENAME(w, g, s) (TO_RENAME(w, g, 0, s) || TO_RENAME(w, g, 1, s) || TO_RENAME(w, g, 2, s))
#elif LAYERS > 1
#define LAYERS_TO_RENAME(w, g, s) (TO_RENAME(w, g, 0, s) || TO_RENAME(w, g, 1, s))
#else
#define LAYERS_TO_RENAME(w, g, s) TO_RENAME(w, g, 0, s)
#endif
#if SHARDS > 1
#define GENERATION_TO_RENAME(w, g) (LAYERS_TO_RENAME(w, g, 0) || LAYERS_TO_RENAME(w, g, 1))
#else
#define GENERATION_TO_RENAME(w, g) LAYERS_TO_RENAME(w, g, 0)
#endif
#define ALL_RENAMED(w) (!GENERATION_TO_RENAME(w, views[w].current) && !GENERATION_TO_RENAME(w, views[w].other))

/* The fence of a reconciled view is its gatherer's to complete. */
#ifdef LOSE_CHANGES
#define IS_GATHERED(v) (EPOCH(v) != EPOCHS + 1 || fenced >= EPOCHS + 1)
#else
#define IS_GATHERED(v) true
#endif

/* --- tombstone.lua --- */

#ifdef RETIRE_BEFORE_FENCED
#define MAY_RETIRE(w) true
#else
#define MAY_RETIRE(w) (fenced >= EPOCH(w))
#endif
#define TO_RETIRE(w, l, s)                                                                                            \
    (views[w].left != 0 && (l) < views[w].left_layers && IS_SHARD(shard[NAME(views[w].left, l, s, EPOCH(w) - 1)]))
#if LAYERS > 2
#define LAYERS_TO_RETIRE(w, s) (TO_RETIRE(w, 0, s) || TO_RETIRE(w, 1, s) || TO_RETIRE(w, 2, s))
#elif LAYERS > 1
#define LAYERS_TO_RETIRE(w, s) (TO_RETIRE(w, 0, s) || TO_RETIRE(w, 1, s))
#else
#define LAYERS_TO_RETIRE(w, s) TO_RETIRE(w, 0, s)
#endif
#if SHARDS > 1
#define ALL_RETIRED(w) (!LAYERS_TO_RETIRE(w, 0) && !LAYERS_TO_RETIRE(w, 1))
#else
#define ALL_RETIRED(w) (!LAYERS_TO_RETIRE(w, 0))
#endif

/* A view that is replaced is fenced, and what left with an earlier one is retired: of what is over nothing is left to do,
 * but where the view was lost or a mutation lets it be replaced too early. */
#if defined(LOSE_VIEW) || defined(LOSE_CHANGES) || defined(CHANGE_BEFORE_FENCED) || defined(CHANGE_UNCHECKED)
#define OLD_VIEWS_RENAME
#endif

/* Whoever knows a view may rename each of its shards at any time, and a driver that found it fenced may retire each
 * shard that left with it. Both are scripts of one shard that ask for no token, so one process that remembers nothing
 * gives them for all drivers and coordinators; a driver only waits until nothing is left to do. */
proctype anybody()
{
    byte w, g, l, s, from;
    do
    :: atomic {
#ifdef OLD_VIEWS_RENAME
           w = latest;
           do
           :: w > 1 -> w--
           :: break
           od;
#else
           if
           :: w = latest
           :: retiring != 0 -> w = retiring
           fi;
#endif
           if
           :: g = views[w].current
           :: g = views[w].other
           fi;
           if
           :: LAYERS > 1 -> l = 1
           :: LAYERS > 2 -> l = 2
           :: l = 0
           fi;
           if
           :: SHARDS > 1 -> s = 1
           :: s = 0
           fi;
           if
           :: TO_RENAME(w, g, l, s) && IS_BORN(w, g, l) ->
               made[MADE(views[w].made_by, s)] = 0;
               shard[NAME(g, l, s, EPOCH(w))] = EMPTY
           :: TO_RENAME(w, g, l, s) && IS_ANEW(w, g, l, s) -> /* anew.lua */
               made_anew[views[w].anew] = 0;
#ifndef OLD_SHARD_STAYS
               shard[NAME(g, l, s, EPOCH(w) - 1)] = tombstone;
#endif
               shard[NAME(g, l, s, EPOCH(w))] = EMPTY
           :: TO_RENAME(w, g, l, s) && !IS_BORN(w, g, l) && !IS_ANEW(w, g, l, s) ->
               from = NAME(g, l, s, EPOCH(w) - 1);
               shard[NAME(g, l, s, EPOCH(w))] = shard[from];
               shard[from] = tombstone
           :: MAY_RETIRE(w) && TO_RETIRE(w, l, s) ->
               shard[NAME(views[w].left, l, s, EPOCH(w) - 1)] = tombstone
           :: else -> skip
           fi;
           w = 0;
           g = 0;
           l = 0;
           s = 0;
           from = 0
       }
    od
}
