/* SPDX-License-Identifier: MIT */
/* A shard's node fails over to a replica that lags: its tags are there, bits and tokens may be those of before. The lane
 * is on another node that loses nothing. Two folders, either of which may stop for any time or end, so that its memory
 * is gone; a reader that reads a block, and may keep what it loaded. With BACKS the address leads to the replica while
 * the master runs on, and back to it. README.md says what is left out.
 *
 * denied: a reader says "absent" of the key after its add was acknowledged. */

#ifndef ENTRIES
#define ENTRIES 2
#endif
#ifndef TOKENS
#define TOKENS 3
#endif
#ifndef FAILOVERS
#define FAILOVERS 2
#endif

#ifndef BACKS
#define BACKS 0
#endif
#define AWAY (FAILOVERS + 2) /* era of the server that the address leads to */

byte last, first, at; /* entries of the lane; the oldest one there; the key's, 0: none yet */
typedef server { bool key; byte header, mark };
server master, replica; /* of the shard: its bits, the token in its header, and up to where it has every entry */
server left;             /* the master that the address has led away from, and */
byte left_era;           /* its era; 0: none */
byte era = 1, view_era = 1; /* of the shard's node; as the view accepts it */
byte number, writer, folded; /* in the view */
bool behind;      /* the replica lacks something */
bool chain[2];    /* the shard has every write of this folder under its token */
bool acknowledged, denied;

#ifdef HEADER_NOT_COMPARED
#define MAY_WRITE true
#elif defined(MARKS) && !defined(NO_CHAIN)
#define MAY_WRITE (master.header == t && chain[f])
#else
#define MAY_WRITE (master.header == t)
#endif
#ifdef LOADED_UNDER_ANY_ERA
#define ANY_ERA true
#else
#define ANY_ERA false
#endif
#ifdef ERA_OF_LATER_VIEW
#define ACCEPTED view_era
#else
#define ACCEPTED e
#endif
#ifdef ERA_WITHOUT_TOKEN
#define WRITER_IS_OURS true
#else
#define WRITER_IS_OURS (writer == t)
#endif
#ifdef TAKES_ERA_OF_NOW
#define TAKES_ANY_ERA true
#else
#define TAKES_ANY_ERA false
#endif
#ifdef ASKED_ANOTHER
#define ASKS_ANOTHER true
#else
#define ASKS_ANOTHER false
#endif
#if defined(REFOLDS_FROM_FOLDED)
#define REFOLDS
#define BASE from
#elif defined(REFOLDS_WHAT_THERE_IS)
#define REFOLDS
#define BASE first
#elif defined(MARKS)
#define REFOLDS
#define BASE master.mark
#endif

/* The address leads away for so long that somebody looks. */
#ifdef LEFT_STAYS
#define HAS_LOOKED true
#else
#define HAS_LOOKED (era != AWAY || view_era != left_era)
#endif

proctype caller()
{
    do
    :: atomic { last < ENTRIES -> last++ }
    :: atomic { last < ENTRIES && at == 0 -> last++; at = last; acknowledged = true }
    :: last == ENTRIES -> break
    od
}

proctype nodes()
{
end:
    do
    :: d_step { behind -> behind = false;
           replica.key = master.key; replica.header = master.header; replica.mark = master.mark }
    :: d_step { era <= FAILOVERS -> era++;
           master.key = replica.key; master.header = replica.header; master.mark = replica.mark;
           chain[0] = chain[0] && !behind; chain[1] = chain[1] && !behind; behind = false }
    :: d_step { BACKS > 0 && left_era == 0 ->
           left.key = master.key; left.header = master.header; left_era = era; era = AWAY;
           master.key = replica.key; master.header = replica.header; behind = false }
    :: d_step { era == AWAY ->
           master.key = left.key; master.header = left.header; era = left_era;
           replica.key = left.key; replica.header = left.header; behind = false }
    od
}

/* Entries behind the position, if that is still there. */
inline apply()
{
    if
    :: first > applied -> whole = false; key = false; applied = 0
    :: else -> key = key || at > applied; applied = last
    fi
}

proctype folder(bit f)
{
    bool whole, key; /* its memory has every entry up to the one applied */
    byte t, from, applied, noted, e;
end:
    do
    :: atomic { number < TOKENS -> number++; t = number; writer = t; from = folded; noted = view_era }
       d_step {
           if
           :: master.header < t -> master.header = t; chain[f] = true; behind = true
           :: else -> t = 0
           fi
       }
       d_step { /* the pages, and INFO behind them */
           if
           :: t != 0 && !whole && (era == noted || ANY_ERA) ->
               key = master.key; applied = from; whole = true
           :: t != 0 && whole && era == noted -> key = key || master.key
           :: t != 0 && era != noted ->
               e = era;
               if
#ifdef REFOLDS
               :: !whole && first <= BASE -> key = master.key || at > BASE; applied = last; whole = true
#endif
#ifndef WITHOUT_TAIL
               :: whole -> apply()
#endif
               :: else
               fi
           :: else
           fi;
           noted = 0
       }
       if
       :: e != 0 -> /* another era than the view's: all is written, once that one is accepted no more */
#ifndef LEFT_STAYS
           d_step {
               if
               :: BACKS > 0 && view_era != era -> view_era = 0
               :: else
               fi
           }
#endif
           atomic {
               if
               :: whole && MAY_WRITE ->
                   master.key = key; behind = true;
                   e = (era == e || TAKES_ANY_ERA -> e : 0) /* INFO behind it */
               :: BACKS > 0 && whole && era == AWAY && left.header == t -> /* the way of a late map */
                   left.key = key;
                   e = (ASKS_ANOTHER && era == e -> e : 0) /* INFO behind it, of that server */
               :: else -> e = 0
               fi
           }
#ifdef TAKES_ERA_OF_NOW
           e = (e != 0 -> era : 0);
#endif
           d_step {
               if
               :: e != 0 && WRITER_IS_OURS -> view_era = e
               :: else
               fi;
               e = 0
           }
       :: else
       fi
    :: d_step { t != 0 && whole && last > applied -> apply() }
    :: d_step { /* folds; it does not look at the era */
           t != 0 && whole && HAS_LOOKED -> noted = applied;
           if
           :: MAY_WRITE -> master.key = key; behind = true
           :: else -> t = 0
           fi
       }
#ifdef MARKS
       d_step {
           if
           :: t != 0 && MAY_WRITE && noted > master.mark -> master.mark = noted; behind = true
           :: else
           fi
       }
#endif
       d_step {
           if
           :: t != 0 && writer == t && noted > folded -> folded = noted
           :: else
           fi
       }
       atomic {
           if
           :: t != 0 && folded > first -> first = folded
           :: true
           fi;
           noted = 0
       }
    :: atomic { t != 0 || whole -> t = 0; whole = false; key = false; applied = 0; from = 0 } /* it ends */
    od
}

/* A block, or a shard that is kept, and the tail behind it, as often as it is asked. */
proctype reader()
{
    bool key;
    byte e, applied, seen;
end:
    do
    :: atomic { applied = folded; e = view_era } /* a view is read */
#ifdef ERA_BEFORE_READ
       seen = era;
       key = master.key;
#else
       atomic { key = master.key; seen = era }
#endif
       do
       :: atomic { first <= applied && seen == ACCEPTED ->
              key = key || at > applied;
              applied = last;
              denied = acknowledged && !key;
              assert(!denied) }
       :: break
       od;
       atomic { key = false; applied = 0; e = 0; seen = 0 }
    od
}

init {
    atomic {
        run caller();
        run nodes();
        run folder(0);
        run folder(1);
        run reader()
    }
}
