/* SPDX-License-Identifier: MIT */
/* One node has the lane and the shards, and fails over to a replica that lags. A writer adds the key, folds it, and
 * leaves; another one has the shards in memory, and may have read the lane's tail or not. The view is on a node of its
 * own. Registered writers write what they have to the shards under the new era, and say so; then the view takes it.
 * README.md says what is left out.
 *
 * denied: a reader, or the other writer from its memory, says "absent" of the key after its add was acknowledged, and
 * the filter is not degraded. */

#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef LEAVES
#define LEAVES 2
#endif

typedef data { bool entry, trimmed, shard }; /* the key's entry, that it was there and was trimmed; the key's bit */
data master, replica;
byte era = 1, lane_era = 1, shard_era = 1; /* of the node; as the view accepts them */
bool registered[2];
byte said[2], wrote[2]; /* the era of which a writer has said that its entries are there, that it wrote the shards */
bool all[2];            /* it had all shards in memory then */
byte known[2];          /* how many had left when it knew of all that they had added */
byte left;              /* how many writers have left */
bool acknowledged, degraded, denied;

#define HAS_SAID(w) (!registered[w] || said[w] == era)
#define HAS_WRITTEN(w) (!registered[w] || wrote[w] == era)
#define IS_PARTLY(w) (registered[w] && !all[w])
#ifdef LEFT_NOT_COMPARED
#define HAS_ALL(w) (registered[w] && all[w])
#else
#define HAS_ALL(w) (registered[w] && all[w] && known[w] == left)
#endif
#ifdef NOBODY_IS_ALL
#define HAVE_ALL (HAS_ALL(0) || HAS_ALL(1) || (!registered[0] && !registered[1]))
#else
#define HAVE_ALL (HAS_ALL(0) || HAS_ALL(1))
#endif

proctype node()
{
end:
    do
    :: d_step { replica.entry = master.entry; replica.trimmed = master.trimmed; replica.shard = master.shard }
    :: d_step { era <= FAILOVERS -> era++;
           master.entry = replica.entry; master.trimmed = replica.trimmed; master.shard = replica.shard }
       /* whoever is the last one has the view take an era */
    :: d_step { lane_era != era && HAS_SAID(0) && HAS_SAID(1) -> lane_era = era }
    :: d_step { shard_era != era && lane_era == era && HAS_WRITTEN(0) && HAS_WRITTEN(1) ->
           degraded = degraded || IS_PARTLY(0) || IS_PARTLY(1) || !HAVE_ALL;
           shard_era = era }
    od
}

/* It has all shards in memory, from the beginning. */
proctype adder()
{
    byte own_era, noted; /* the entry was met under that era; the position that is folded was read under that one */
    bool kept;
    atomic { registered[0] = true }
    do
    :: atomic { !acknowledged && lane_era == era ->
           master.entry = true; master.trimmed = false; own_era = era; kept = true; acknowledged = true }
    :: atomic { lane_era != era && said[0] != era -> /* answers a roll call */
           if
           :: kept -> master.entry = true; master.trimmed = false; own_era = era
           :: else
           fi;
           said[0] = era }
    :: atomic { shard_era != era && lane_era == era && wrote[0] != era ->
           master.shard = master.shard || acknowledged; wrote[0] = era; all[0] = true }
    :: atomic { kept && own_era == era && lane_era == era -> /* folds: the shard, */
           master.shard = true; noted = era }
       atomic { /* the position, */
           if
           :: lane_era == noted -> kept = false
           :: else
           fi }
       atomic { /* and trims */
           if
           :: !kept && era == noted -> master.entry = false; master.trimmed = true
           :: true
           fi;
           noted = 0 }
    :: atomic { !kept && left < LEAVES -> registered[0] = false; left++; break }
    od
}

#ifdef WHOLE_UNDER_ANY_ERA
#define WHOLE (under != 0)
#else
#define WHOLE (under == lane_era)
#endif
#ifdef WHOLE_WHEN_WRITTEN
#define WHEN_WRITTEN (had -> lane_era : 0)
#else
#define WHEN_WRITTEN 0
#endif

/* It adds nothing. @had: it has had all shards in memory; @under: the lane's era under which it has loaded them, and
 * nothing was trimmed past it since. */
proctype other()
{
    bool had, key, past;
    byte under, seen, e;
end:
    do
    :: atomic { !registered[1] && left < LEAVES -> registered[1] = true; said[1] = 0; wrote[1] = 0 }
    :: atomic { !WHOLE && lane_era == era && shard_era == era -> /* loads: the shard and the tail */
           key = key || master.shard || master.entry; past = master.entry || master.trimmed; had = true; under = era }
    :: atomic { WHOLE && lane_era == era && shard_era == era -> seen = left; e = era } /* reads the view, */
       atomic { /* then the tail */
#ifdef LEFT_READ_AFTER_TAIL
           if
           :: era != e
           :: else ->
               if
               :: master.trimmed && !past -> under = 0
               :: else -> key = key || master.entry; past = past || master.entry
               fi
           fi }
       atomic {
           if
           :: WHOLE && lane_era == e && shard_era == e -> known[1] = left
           :: else
           fi;
#elif defined(KNOWN_WITHOUT_TAIL)
           if
           :: WHOLE && era == e && lane_era == e -> known[1] = seen
           :: else
           fi;
#else
           if
           :: era != e
           :: else ->
               if
               :: master.trimmed && !past -> under = 0
               :: else -> key = key || master.entry; past = past || master.entry; known[1] = seen
               fi
           fi;
#endif
           seen = 0; e = 0 }
    :: atomic { registered[1] && lane_era != era && said[1] != era -> said[1] = era; past = false; under = 0 }
    :: atomic { registered[1] && shard_era != era && lane_era == era && wrote[1] != era ->
           if
           :: had -> key = key || master.shard || master.entry; master.shard = key
           :: else
           fi;
           wrote[1] = era; all[1] = had; under = WHEN_WRITTEN }
    :: atomic { acknowledged && WHOLE && lane_era == era && !degraded -> /* is asked: memory, and the tail */
           if
           :: master.trimmed && !past -> under = 0
           :: else -> key = key || master.entry; past = past || master.entry; denied = !key; assert(!denied)
           fi }
    :: atomic { registered[1] && left < LEAVES -> /* leaves, and another one begins with nothing in memory */
           registered[1] = false; left++; had = false; under = 0; key = false; past = false; known[1] = 0 }
    od
}

/* Whoever has nothing in memory. */
proctype reader()
{
end:
    do
    :: atomic { acknowledged && lane_era == era && shard_era == era && !degraded ->
           denied = !master.shard && !master.entry;
           assert(!denied) }
    od
}

init {
    atomic {
        run node();
        run adder();
        run other();
        run reader()
    }
}
