/* SPDX-License-Identifier: MIT */
/* A block of a shard that is not in memory, pinned while requests of one process need it: it takes every entry that is
 * applied behind its pin, and Redis' first answer. Two requests share the pin, one of which may add the key; the key is
 * added by it, or (OTHER_ADDS) by another process. The view changes: of that the reads under way count no more, the
 * block stays whole. The lanes are read again from `folded` (GAP), as the entry was trimmed: of that nothing counts.
 * overlay.pml has what the overlay drops, and views of another generation. A shard that loads or leaves meanwhile is
 * not modelled (the head of shard/resident/pin.c has the argument).
 *
 * denied: a check that began after the add was acknowledged finds the block without the key.
 * unclaimed: the add, which is the first one, is told that its key was not new. */

bool entry, shard, folded;      /* in the lane; in Redis' block; `folded` is behind it */
byte holders;                   /* of the pin */
bool whole, bits;               /* of the pinned block */
bool overlay, applied;
byte under_way;                 /* reads that count */
byte view;                      /* another number after each change */
bool changed;
bool acknowledged, denied, unclaimed;
byte fresh;
#define NEW 1
#define OLD 2
#define UNKNOWN 3

inline discard()
{
    view++;
    under_way = 0
}

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
    :: atomic { !changed -> changed = true; discard();
#ifdef WHOLE_OF_VIEW
           whole = false
#endif
       }
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
#ifdef GAP
    if
    :: entry
    :: atomic { folded -> /* the entry is before `folded`, and is not met */
#ifndef OLD_READS_COUNT
           discard();
#endif
#ifndef WHOLE_BEYOND_BASE
           whole = false;
#endif
           fresh = UNKNOWN;
           applied = true;
           goto over
       }
    fi;
#else
    entry;
#endif
#ifdef LOOKS_BEFORE_OVERLAY
    is_pinned = holders > 0;
#endif
    overlay = true;
    atomic { set_bits(); applied = true }
over:
    skip
}

proctype request(bool adds)
{
    bool must, asks, block, got;
    byte by;
end:
    do
    :: atomic { must = acknowledged; asks = !whole; holders++ }
read:
       if
       :: asks -> /* the answers of both requests may come in any order */
#ifdef SENT_BEFORE_WHOLE
           if
           :: adds -> entry = true
           :: else
           fi;
#endif
           atomic { under_way++; by = view }
           block = shard;
           atomic {
               if
               :: by != view -> asks = !whole; block = false; by = 0; goto read
               :: else
               fi;
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
               whole = true; got = false; block = false; by = 0
           }
       :: else
       fi;
       if
       :: atomic { adds && !acknowledged && whole -> entry = true }
          atomic { applied ->
              unclaimed = fresh != NEW;
              assert(!unclaimed);
              acknowledged = true }
       :: atomic { !whole -> asks = true; goto read } /* it is unknown: the lanes were read again */
       :: atomic { whole && (!entry || applied) -> /* a tail read that began after the request */
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
