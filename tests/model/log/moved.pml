/* SPDX-License-Identifier: MIT */
/* A shard's slot moves in a cluster, and its node A fails over to a replica that lags, before, amid and behind that.
 * The lane has forgotten the key, so a reader of blocks says what the shard says. Node B stays, and is accepted. A
 * control looks at all masters now and then, and tells the reader under which map of the slots it last accepted all of
 * them. README.md says what is left out.
 *
 * denied: a reader says "absent" of a key that was acknowledged, and folded. */

#ifndef FAILOVERS
#define FAILOVERS 2
#endif
#ifndef MOVES
#define MOVES 2
#endif

#define A 0
#define B 1
#define B_ERA 9
#define ERA_OF(node) (node == A -> era : B_ERA)
#define ACCEPTS(e, by) (e == by || e == B_ERA)
#define PLACE (owner == B || half -> B : A) /* where the shard is */

bool key[2], replica_key; /* of the shard on A, on B, on the replica of A */
byte era = 1, view_era = 1; /* of A; as the view accepts it */
byte owner = A;           /* of the slot */
bool half;                /* A has the slot, and the shard has gone to B: A answers ASK */
byte map = A, version;    /* what this process knows of it */
byte looked;              /* the version under which all masters were accepted */
bool doubted;             /* no block counts until they are accepted again */
bool folded, denied;

proctype folder()
{
    d_step { key[PLACE] = true; folded = true } /* and the lane is trimmed */
}

proctype nodes()
{
    byte failovers, moves;
end:
    do
    :: d_step { replica_key != key[A] -> replica_key = key[A] }
    :: d_step { failovers < FAILOVERS -> failovers++; era++; key[A] = replica_key }
    :: d_step { failovers < FAILOVERS && half -> failovers++; era++; key[A] = replica_key; half = false }
    :: d_step { moves < MOVES && owner == A && !half -> moves++; key[B] = key[A]; half = true }
    :: d_step { owner == A && half -> half = false; owner = B; key[A] = false }
    :: d_step { moves < MOVES && owner == B -> moves++; key[A] = key[B]; owner = A; key[B] = false }
    od
}

proctype refresher()
{
end:
    do
    :: d_step { map != owner -> map = owner; version++ }
    od
}

proctype control()
{
    byte m, e;
    bool emptied; /* A had no shards when all masters were accepted last */
    bool has;
end:
    do
    :: atomic {
#ifndef MAP_BEHIND_LOOK
           m = version;
#endif
           e = 0
       }
       d_step { e = era; has = owner == A }
#ifdef MAP_BEHIND_LOOK
       m = version;
#endif
       if
#ifdef GONE_IS_NONE
       :: e == view_era || !has -> d_step { looked = m; doubted = false; emptied = !has }
#else
       :: e == view_era || (!has && emptied) -> d_step { looked = m; doubted = false; emptied = !has }
#endif
       :: else -> /* writers write all that they have in memory; then the view accepts the era */
           doubted = true;
           d_step { folded -> key[PLACE] = true }
           d_step {
               if
               :: era == e -> view_era = e
               :: else
               fi
           }
       fi
       d_step { m = 0; e = 0; has = false }
    od
}

mtype = { NOTHING, ASK, AGAIN, TOLD };

proctype reader()
{
    byte v, at, e, by;
    bool k, was;
    mtype said = NOTHING;
end:
    do
    :: d_step { !doubted -> was = folded; by = view_era; v = looked; at = map } /* it is bound, and asks */
       d_step { /* an answer has its node's era behind it */
           if
           :: at == PLACE && at == owner -> k = key[at]; e = ERA_OF(at); said = TOLD
           :: at == A && owner == A && half -> e = era; said = ASK
           :: at != owner -> /* MOVED */
#ifdef MOVED_FOLLOWED
               k = key[PLACE]; e = ERA_OF(PLACE); said = TOLD
#endif
           fi
       }
#ifdef ASK_OF_ANY_ERA
       e = (said == ASK -> B_ERA : e);
#endif
       d_step {
           if
           :: said == ASK && ACCEPTS(e, by) && (half || owner == B) -> k = key[B]; said = AGAIN
           :: said == ASK && !(ACCEPTS(e, by) && (half || owner == B)) -> said = NOTHING
           :: else
           fi
       }
#ifdef ASK_NOT_REPEATED
       d_step {
           if
           :: said == AGAIN -> said = TOLD
           :: else
           fi
       }
#endif
       d_step { /* A is asked again, and says ASK again: then B has what A had */
           if
           :: said == AGAIN && owner == A && half -> e = era; said = TOLD
           :: said == AGAIN && !(owner == A && half) -> said = NOTHING
           :: else
           fi
       }
#ifdef ASK_OF_ANY_ERA
       e = (at == A && said == TOLD && e != view_era -> B_ERA : e);
#endif
       d_step {
           if
#ifdef MAP_NOT_COMPARED
           :: said == TOLD && ACCEPTS(e, by) -> denied = was && !k
#else
           :: said == TOLD && ACCEPTS(e, by) && version == v -> denied = was && !k
#endif
           :: else
           fi
       }
       assert(!denied);
       d_step { v = 0; at = 0; e = 0; by = 0; k = false; was = false; said = NOTHING }
    od
}

init {
    atomic {
        run folder();
        run nodes();
        run refresher();
        run control();
        run reader()
    }
}
