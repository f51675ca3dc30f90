/* SPDX-License-Identifier: MIT */
/* Adds and checks. A coordinator that slept may know any view that ever was, so an operation begins with any of them.
 * What an attempt was answered counts under that view only. */

bit denied;   /* a check said "no" to the key */
bit mistaken; /* somebody took a shard for lost that is not, or could have */

/* Commands of an attempt that are to be sent, each to a layer of the generation that is read or to the other one. */
#define TO_LAYER_0 1
#define TO_LAYER_1 2
#define TO_LAYER_2 4
#define TO_OTHER 8

#ifdef SWITCHED_WRITES_CURRENT_ONLY
#define WRITES_OTHER(w) (views[w].phase == BUILDING)
#else
#define WRITES_OTHER(w) (views[w].phase != STEADY)
#endif
#ifdef OLDER_LAYERS_NOT_READ
#define OWN_COMMANDS(w) (1 << WRITTEN(w))
#else
#define OWN_COMMANDS(w) ((1 << views[w].layers) - 1)
#endif
#define COMMANDS(w) (OWN_COMMANDS(w) + (WRITES_OTHER(w) -> TO_OTHER : 0))

/* BITFIELD, or GETRANGE of a layer that is not written. */
inline send(name_, writes_, counts_)
{
    if
    :: IS_SHARD(shard[name_]) ->
        if
        :: writes_ -> shard[name_] = FULL
        :: else -> skip
        fi
    :: shard[name_] == TOMBSTONE -> unseen = unseen || counts_
    :: shard[name_] == NONE || shard[name_] == ZOMBIE ->
#ifndef REDUCED
        if
        :: writes_ -> shard[name_] = ZOMBIE
        :: else -> skip
        fi;
#endif
#ifndef TAG_NOT_CHECKED_ON_WRITE
        unseen = unseen || counts_
#endif
    fi
}

#ifdef ACKNOWLEDGE_WITHOUT_LOOKING
#define OWN_COUNTS false
#else
#define OWN_COUNTS true
#endif
#if defined(ACKNOWLEDGE_WITHOUT_LOOKING) || defined(ACKNOWLEDGE_CURRENT_ONLY)
#define OTHER_COUNTS false
#else
#define OTHER_COUNTS true
#endif

/* One command of the attempt, in any order: they go to several nodes. */
inline send_one()
{
    if
    :: to_send & TO_LAYER_0 ->
        send(NAME(views[w].current, 0, 0, EPOCH(w)), WRITTEN(w) == 0, OWN_COUNTS);
        to_send = to_send - TO_LAYER_0
#if LAYERS > 1
    :: to_send & TO_LAYER_1 ->
        send(NAME(views[w].current, 1, 0, EPOCH(w)), WRITTEN(w) == 1, OWN_COUNTS);
        to_send = to_send - TO_LAYER_1
#endif
#if LAYERS > 2
    :: to_send & TO_LAYER_2 ->
        send(NAME(views[w].current, 2, 0, EPOCH(w)), WRITTEN(w) == 2, OWN_COUNTS);
        to_send = to_send - TO_LAYER_2
#endif
    :: to_send & TO_OTHER ->
        send(NAME(views[w].other, OTHER_WRITTEN(w), 0, EPOCH(w)), true, OTHER_COUNTS);
        to_send = to_send - TO_OTHER
    fi
}

inline pick_any_view()
{
    w = latest;
    do
    :: w > 1 -> w--
    :: break
    od
}

/* The view was fenced when it was loaded: one that is over was so at some time. */
#define WAS_FENCED(w) (!IS_PRESENT(w) || IS_FENCED(w))

#ifdef LOSE
/* proves_loss(), after the reload. Without a view nothing is proved: shards may have survived, and others still read them
 * under the view that was there. */
#ifdef LOSS_WITHOUT_RELOAD
#define PROVES_LOSS(w) known_fenced
#elif defined(LOSS_UNDER_UNFENCED_VIEW)
#define PROVES_LOSS(w) IS_PRESENT(w)
#elif defined(ACKNOWLEDGED_WITHOUT_VIEW)
#define PROVES_LOSS(w) (now == 0 || (IS_PRESENT(w) && known_fenced))
#elif defined(LOSS_NOT_SURE)
#define PROVES_LOSS(w) (IS_PRESENT(w) && known_fenced)
#else
#define PROVES_LOSS(w) (IS_PRESENT(w) && known_fenced && !IS_BEHIND)
#endif
#ifdef LOSS_BY_THE_FIRST_REPLY
#define ATTEMPT_IS_OVER (to_send == 0 || unseen)
#else
#define ATTEMPT_IS_OVER (to_send == 0)
#endif
#else
/* Without a loss nobody may find one, and the bits of an attempt that failed only help: it ends with its first reply
 * without the tag. */
#define PROVES_LOSS(w) false
#define ATTEMPT_IS_OVER (to_send == 0 || unseen)
#endif

#ifdef MIXED_VIEWS
/* What was answered under the view before still counts. */
#define REMAINING(w) (old_to_send & COMMANDS(w))
#else
#define REMAINING(w) COMMANDS(w)
#endif

/* The view again, after a reply without the tag. */
inline reload()
{
    if
    :: PROVES_LOSS(w) ->
#ifdef LOSE
#ifndef IGNORE_LOSS
        mistaken = lost == 0 || (lost != views[w].current && lost != views[w].other);
        assert(!mistaken);
#endif
#endif
        acknowledged = 1;
        goto over
    :: else -> skip
    fi;
    (now != 0);
#if defined(LOSE_CHANGES) && !defined(TAKES_OLDER)
    w = (EPOCH(now) > EPOCH(w) -> now : w);
#else
    w = now;
#endif
#ifdef LOSE
    known_fenced = IS_FENCED(w);
#endif
    to_send = REMAINING(w);
    unseen = 0
}

#ifdef ADD_BEFORE_BEGIN
#define MAY_ADD true
#define MAY_BEGIN acknowledged
#else
#define MAY_ADD (transaction != BEFORE)
#define MAY_BEGIN true
#endif

/* BF.ADD, before or after the COMMIT. */
proctype writer()
{
    byte w, to_send;
    bit unseen;
#ifdef LOSE
    bit known_fenced;
#endif
#ifdef MIXED_VIEWS
    byte old_to_send;
#endif
    atomic {
        MAY_ADD;
        pick_any_view();
#ifdef LOSE
        known_fenced = WAS_FENCED(w);
#endif
        to_send = COMMANDS(w)
    }
    do
    :: atomic {
           !ATTEMPT_IS_OVER ->
#ifdef MIXED_VIEWS
           old_to_send = to_send;
#endif
           send_one();
           if
           :: to_send == 0 && !unseen -> acknowledged = 1; goto over
#if defined(REDUCED) && !defined(LOSE)
           :: unseen -> reload() /* a view that is loaded later is found by the next attempt */
#endif
           :: else -> skip
           fi
       }
    :: atomic { ATTEMPT_IS_OVER && unseen -> reload() }
    od;
over:
    skip
}

#ifdef ONE_COORDINATOR
/* Two adds of the key in flight on one coordinator, which share its view and its reloads. A reload serves whoever asked
 * before it was sent; who asks later waits for the next one (catalog_reload()). */
#define IDLE 0
#define SENT 1
#define ANSWERED 2
byte shared = 1;
bit shared_fenced = 1;
byte load;
byte loaded;
bit loaded_fenced;
bit waits[2];
bit waits_next[2];

proctype reloader()
{
    do
    :: atomic { load == SENT -> loaded = now; loaded_fenced = IS_FENCED(now); load = ANSWERED }
    :: atomic {
           load == ANSWERED ->
           shared = loaded;
           shared_fenced = loaded_fenced;
           loaded = 0;
           loaded_fenced = 0;
           waits[0] = waits_next[0];
           waits[1] = waits_next[1];
           waits_next[0] = 0;
           waits_next[1] = 0;
           load = (waits[0] || waits[1] -> SENT : IDLE)
       }
    od
}

#ifdef JOINS_LOAD_UNDER_WAY
#define MAY_JOIN true
#else
#define MAY_JOIN (load == IDLE)
#endif

proctype operation(bit me)
{
    byte w, to_send;
    bit unseen, known_fenced;
    MAY_ADD;
    do
    :: atomic { w == 0 -> w = shared; known_fenced = shared_fenced; to_send = COMMANDS(w); unseen = 0 }
    :: atomic {
           w != 0 && to_send != 0 && !unseen -> send_one();
           if
           :: to_send == 0 && !unseen -> acknowledged = 1; goto over
           :: else -> skip
           fi
       }
    :: atomic {
           w != 0 && unseen ->
           if
           :: MAY_JOIN -> waits[me] = 1
           :: else -> waits_next[me] = 1
           fi;
           load = (load == IDLE -> SENT : load)
       };
       atomic {
           !waits[me] && !waits_next[me] ->
           if
           :: known_fenced && EPOCH(w) == EPOCH(shared) ->
#ifndef IGNORE_LOSS
               mistaken = 1; /* nothing is lost */
               assert(!mistaken);
#endif
               acknowledged = 1;
               goto over
           :: else -> w = 0
           fi
       }
    od;
over:
    atomic { w = 0; to_send = 0; unseen = 0; known_fenced = 0 }
}
#endif

/* BEGIN and INSERT; COMMIT. A transaction that is rolled back promises nothing. */
proctype postgres()
{
    atomic { MAY_BEGIN -> transaction = OPEN }
    transaction = COMMITTED
}

/* Every shard of the present view lies where it should: else somebody could take one for lost. */
#define IS_THERE(w, g, l, s) (l > NEWEST(w, g) || IS_SHARD(shard[NAME(g, l, s, EPOCH(w))]))
#if LAYERS > 2
#define LAYERS_ARE_THERE(w, g, s) (IS_THERE(w, g, 0, s) && IS_THERE(w, g, 1, s) && IS_THERE(w, g, 2, s))
#elif LAYERS > 1
#define LAYERS_ARE_THERE(w, g, s) (IS_THERE(w, g, 0, s) && IS_THERE(w, g, 1, s))
#else
#define LAYERS_ARE_THERE(w, g, s) IS_THERE(w, g, 0, s)
#endif
#if SHARDS > 1
#define GENERATION_IS_THERE(w, g) (LAYERS_ARE_THERE(w, g, 0) && LAYERS_ARE_THERE(w, g, 1))
#else
#define GENERATION_IS_THERE(w, g) LAYERS_ARE_THERE(w, g, 0)
#endif
#define ALL_ARE_THERE(w)                                                                                              \
    (GENERATION_IS_THERE(w, views[w].current) && (views[w].other == 0 || GENERATION_IS_THERE(w, views[w].other)))

/* BF.EXISTS after the promise was given: "no" where every layer has its tag and none has the key. The layers are read in
 * any order; an attempt is over with the first reply without the tag or with the key. */
proctype checker()
{
    byte w, to_read, l;
    do
#if !defined(IGNORE_LOSS) && !defined(LOSE)
    :: atomic { IS_FENCED(now) && !ALL_ARE_THERE(now) -> mistaken = 1; assert(!mistaken) }
#endif
    :: atomic {
           PROMISED ->
           if
           :: w == 0 -> pick_any_view(); to_read = (1 << views[w].layers) - 1
           :: else -> skip
           fi;
           if
           :: to_read & 1
           :: to_read & 2 -> l = 1
           :: to_read & 4 -> l = 2
           fi;
           to_read = to_read - (1 << l);
           if
           :: PLACEHOLDER(w) || IS_UNSURE(w) || shard[NAME(views[w].current, l, 0, EPOCH(w))] != EMPTY -> to_read = 0
           :: else -> denied = to_read == 0
           fi;
           assert(!denied);
           l = 0;
           if
           :: to_read == 0 -> w = 0
           :: else -> skip
           fi
       }
    od
}
