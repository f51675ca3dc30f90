/* SPDX-License-Identifier: MIT */
/* A block of a shard that is not in memory, pinned while requests of one process need it: it takes every entry that is
 * applied behind its pin, and Redis' first answer. Two requests share the pin, one of which may add the key; the key is
 * added by it, or (OTHER_ADDS) by another process. overlay.pml has what the overlay drops, and views. A shard that
 * loads or leaves meanwhile is not modelled (the head of shard/resident/pin.c has the argument).
 *
 * denied: a check that began after the add was acknowledged finds the block without the key.
 * unclaimed: the add, which is the first one, is told that its key was not new. */

bool entry, shard, folded;      /* in the lane; in Redis' block; `folded` is behind it */
byte holders;                   /* of the pin */
bool whole, bits;               /* of the pinned block */
bool overlay, applied;
byte under_way;                 /* reads */
bool acknowledged, denied, unclaimed;
byte fresh;
#define NEW 1
#define OLD 2
#define UNKNOWN 3

proctype rest()
{
end:
    do
#ifdef OTHER_ADDS
    :: atomic { !entry -> entry = true; acknowledged = true }
#endif
    :: atomic { entry && !shard -> shard = true }
    :: atomic { shard && !folded -> folded = true }
    :: atomic { overlay && folded && under_way == 0 -> overlay = false }
    od
}

inline set_bits()
{
    if
    :: is_pinned && holders > 0 ->
        fresh = (whole -> (bits -> OLD : NEW) : UNKNOWN);
#ifndef PIN_TAKES_NO_ENTRIES
        bits = true
#endif
    :: else -> fresh = UNKNOWN
    fi
}

proctype applier()
{
    bool is_pinned = true;
    entry;
#ifdef LOOKS_BEFORE_OVERLAY
    is_pinned = holders > 0;
#endif
    overlay = true;
    atomic { set_bits(); applied = true }
}

proctype request(bool adds)
{
    bool must, asks, block, got;
end:
    do
    :: atomic { must = acknowledged; asks = !whole; holders++ }
       if
       :: asks -> /* the answers of both requests may come in any order */
#ifdef SENT_BEFORE_WHOLE
           if
           :: adds -> entry = true
           :: else
           fi;
#endif
           under_way++;
           block = shard;
           atomic {
               got = block || overlay;
               under_way--;
               if
#ifdef LATER_ANSWERS_COUNT
               :: true -> bits = bits || got
#else
               :: !whole -> bits = bits || got
               :: else
#endif
               fi;
               whole = true; got = false; block = false
           }
       :: else
       fi;
       if
       :: atomic { adds && !acknowledged -> entry = true }
          atomic { applied ->
              unclaimed = fresh != NEW;
              assert(!unclaimed);
              acknowledged = true }
       :: atomic { !entry || applied -> /* a tail read that began after the request */
              denied = must && !bits;
              assert(!denied) }
       fi;
       atomic {
           holders--;
           if
           :: holders == 0 -> whole = false; bits = false
           :: else
           fi;
           must = false; asks = false
       }
    od
}

init {
    atomic {
        run rest();
        run applier();
#ifdef OTHER_ADDS
        run request(false);
#else
        run request(true);
#endif
        run request(false)
    }
}
