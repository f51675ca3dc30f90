/* SPDX-License-Identifier: MIT */
/* Two lanes of one filter, with a key in each. Both keys are one bit, or with OWN_BITS a bit each of one block. A process of several workers:
 * one applier a lane at a time, look-ups beside it, and the folder. Another process loads the shard, or reads its block
 * with an overlay. README.md says what is left out.
 *
 * denied: "absent" of a key after its add was acknowledged.
 * mistaken: a loader finds no anchor. */

byte last[2], first[2]; /* of each lane: entries, which are acknowledged; the oldest one there */
byte shard;             /* the bits */
byte folded[2];         /* in the view */
bool denied, mistaken;

/* The bits of the process, which all workers share. */
byte memory;
bool dirty, busy[2];
byte inside; /* appliers between the first bit and the position: a read lock */
byte applied[2];

#ifdef OWN_BITS
#define KEY(l) (1 << (l))
#else
#define KEY(l) 1
#endif
#ifdef NO_LOCK
#define MAY_APPLY(l) true
#else
#define MAY_APPLY(l) (!busy[l])
#endif
#ifdef TRIM_BY_OTHER_LANE
#define TRIMMED(l) folded[1 - (l)]
#else
#define TRIMMED(l) folded[l]
#endif
#ifdef FOLDED_OF_OTHER_LANE
#define BASE(l) from[1 - (l)]
#else
#define BASE(l) from[l]
#endif

proctype caller()
{
end:
    do
    :: atomic { last[0] < 1 -> last[0]++ }
    :: atomic { last[1] < 1 -> last[1]++ }
    od
}

/* A worker that has a reply of the lane's tail. */
proctype applier(bit l)
{
    bool fresh;
end:
    do
    :: atomic { applied[l] < last[l] && MAY_APPLY(l) -> busy[l] = true; inside++ }
#ifdef POSITION_BEFORE_BITS
       applied[l] = last[l];
#endif
       atomic { fresh = !(memory & KEY(l)); memory = memory | KEY(l) }
       if
       :: fresh -> dirty = true
       :: else
       fi;
#ifndef POSITION_BEFORE_BITS
       applied[l] = last[l];
#endif
       atomic { fresh = false; busy[l] = false; inside-- }
    od
}

/* A worker looks a key of lane l up: a tail read that began after its add was acknowledged is applied. */
proctype checker(bit l)
{
    atomic { applied[l] == 1 -> denied = !(memory & KEY(l)); assert(!denied) }
}

proctype folder()
{
    byte noted[2], l;
    byte copy;
    bool write;
end:
    do
    :: noted[0] = applied[0];
#ifndef POSITION_AFTER_COPY
       noted[1] = applied[1];
#endif
#ifndef NO_BARRIER
       inside == 0; /* a write lock, taken and given back: entries that were being applied have their marks */
#endif
       atomic { write = dirty; dirty = false }
       copy = memory;
#ifdef POSITION_AFTER_COPY
       noted[1] = applied[1];
#endif
       if
       :: write -> shard = copy
       :: else
       fi;
       if
       :: l = 0
       :: l = 1
       fi;
       folded[l] = (noted[l] > folded[l] -> noted[l] : folded[l]);
       if
       :: first[l] = (TRIMMED(l) > first[l] -> TRIMMED(l) : first[l])
       :: true
       fi;
       l = 1 - l;
       folded[l] = (noted[l] > folded[l] -> noted[l] : folded[l]);
       first[l] = (TRIMMED(l) > first[l] -> TRIMMED(l) : first[l]);
       atomic { write = false; copy = 0; noted[0] = 0; noted[1] = 0; l = 0 }
    od
}

inline read_tail(n)
{
    if
    :: first[n] > BASE(n) ->
#ifdef MISTAKEN
        mistaken = (first[n] > folded[n]);
        assert(!mistaken);
#endif
        break
    :: else ->
        if
        :: last[n] > BASE(n) -> keys = keys | KEY(n)
        :: else
        fi;
        have[n] = true
    fi
}

/* Loads the shard, and both tails; then it answers about keys of either lane. */
proctype loader()
{
    byte from[2];
    byte keys, must[2];
    bool have[2], page;
    atomic { from[0] = folded[0]; from[1] = folded[1]; must[0] = last[0]; must[1] = last[1] };
    do
    :: atomic { !page -> keys = keys | shard; page = true }
    :: atomic { !have[0] -> read_tail(0) }
    :: atomic { !have[1] -> read_tail(1) }
#ifdef ONE_TAIL
    :: atomic { page && (have[0] || have[1]) ->
           denied = (have[0] && must[0] && !(keys & KEY(0))) || (have[1] && must[1] && !(keys & KEY(1)));
#else
    :: atomic { page && have[0] && have[1] ->
           denied = (must[0] && !(keys & KEY(0))) || (must[1] && !(keys & KEY(1)));
#endif
           assert(!denied);
           break
       }
    od
}

/* Reads a block, with an overlay of the entries that it applied and folded has not passed. A check of a key of lane l
 * reads the tail of that lane alone. */
proctype reader()
{
    byte position[2], from[2], block;
    bool overlay[2];
    bit l;
end:
    do
    :: atomic { /* a view */
           from[0] = folded[0]; from[1] = folded[1];
           overlay[0] = overlay[0] && from[0] == 0;
           overlay[1] = overlay[1] && from[1] == 0
       }
    :: if
       :: l = 0
       :: l = 1
       fi;
       block = shard;
       atomic {
           if
           :: first[l] > position[l] -> position[l] = from[l] /* from folded again */
           :: else ->
               overlay[l] = overlay[l] || (last[l] > position[l] && from[l] == 0);
               position[l] = last[l];
               block = block | (overlay[0] -> KEY(0) : 0) | (overlay[1] -> KEY(1) : 0);
               denied = last[l] > 0 && !(block & KEY(l));
               assert(!denied)
           fi
       }
       atomic { block = 0; l = 0 }
    od
}

init {
    atomic {
        run caller();
        run applier(0);
        run applier(1);
        run folder();
#ifdef LOADS
        run applier(0);
        run checker(0);
        run checker(1);
        run loader()
#else
        run reader()
#endif
    }
}
