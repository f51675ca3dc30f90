/* SPDX-License-Identifier: MIT */
/* A lane is lost, and made whole from what its writers keep: another stream, of which the view accepts no era until
 * every registered writer has appended there what it keeps, and has said so. One writer, with a thread that adds and
 * one that answers; one or two processes that replace the lane, a folder that trims, a reader. Other writers are waited
 * for in the same way. The node's era stays as it is (era.pml has its changes); the shards are on a node that is never
 * lost.
 *
 * denied: a reader says "absent" of the key after its add was acknowledged.
 * mistaken: the entry that the view names is not in the lane that it names. */

#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef STREAMS
#define STREAMS 3
#endif
#ifndef REPLACERS
#define REPLACERS 1
#endif
#define LENGTH 3
#define ANCHOR 1 /* what entries say: the one that the stream was made with, */
#define KEY 2    /* the key, */
#define OTHER 3  /* another one, of a writer that is not followed */
#define NOTHING 9

typedef lane { bool open; byte length, first; byte entry[LENGTH] }; /* first: what is before was trimmed */
lane at[STREAMS];
byte number;          /* the view's stream */
byte drawn = 1;       /* numbers that were given out */
bool accepted = true; /* the view has the era of its stream */
byte folded_in, folded; /* a position: stream, place */
bool registered;
byte said = NOTHING;  /* stream of which the writer says that its entries are there */
bool shard;
byte own_in;          /* stream in which the process meets its entries, */
bool kept, met;       /* the entry is kept; it was met in that stream, */
byte kept_at;         /* there */
byte losses;
bool acknowledged, denied, mistaken;

#ifdef TAKES_AT_ONCE
#define ALL_SAID(n) true
#else
#ifdef SAID_OF_ANY_STREAM
#define ALL_SAID(n) (!registered || said != NOTHING)
#else
#define ALL_SAID(n) (!registered || said == n)
#endif
#endif
#ifdef LEAVES_EARLY
#define MAY_LEAVE true
#else
#define MAY_LEAVE (!kept)
#endif
#ifdef NOT_ENTERED
#define MEETS_IN(n) true
#else
#define MEETS_IN(n) (own_in == n)
#endif
/* Place of the key's entry in stream n_, or LENGTH. */
inline find(n_)
{
    seen = at[n_].first;
    do
    :: at[n_].open && seen < at[n_].length && at[n_].entry[seen] != KEY -> seen++
    :: else -> break
    od;
    if
    :: !at[n_].open || seen >= at[n_].length -> seen = LENGTH
    :: else
    fi
}

inline append(n_, bytes_)
{
    if
    :: at[n_].open && at[n_].length < LENGTH -> at[n_].entry[at[n_].length] = bytes_; at[n_].length++
    :: else
    fi
}

proctype adds()
{
    byte n, seen;
    registered = true;
end:
    do
    :: atomic { accepted -> n = number } /* the view, which may be old when it is used */
       if
       :: atomic { append(n, KEY) }
       :: true
       fi;
       atomic { find(n) } /* a tail read, and what follows from it, later */
       atomic {
           if
           :: seen < LENGTH && MEETS_IN(n) ->
#ifndef NOT_KEPT
               kept = true;
               met = true;
               kept_at = seen;
#endif
               acknowledged = true;
               n = 0;
               seen = 0;
               break
           :: else
           fi;
           n = 0;
           seen = 0
       }
    od;
end_leaving:
    atomic { MAY_LEAVE -> registered = false }
}

proctype answers()
{
    byte n, f, seen;
end:
    do
    :: atomic { !accepted && registered && said != number -> n = number }
#ifndef NOT_ENTERED
       atomic {
           if
           :: own_in != n -> own_in = n; met = false
           :: else
           fi
       }
#endif
       atomic {
           find(n);
           if
#ifndef NOT_APPENDED_AGAIN
           :: kept && seen == LENGTH -> append(n, KEY)
#endif
           :: else
           fi;
           seen = 0
       }
       atomic { /* looks again */
           find(n);
           if
           :: kept && seen < LENGTH && own_in == n && !met -> met = true; kept_at = seen
           :: else
           fi;
           if
#ifndef NOT_APPENDED_AGAIN
           :: kept && seen == LENGTH -> n = NOTHING
#endif
           :: else
           fi;
           seen = 0
       }
       atomic {
           if
           :: n == number -> said = n
           :: else
           fi;
           n = 0
       }
       /* forgets what is folded, by a view that may be old */
    :: atomic { kept && accepted && folded_in == number -> n = number; f = folded }
       atomic {
           if
           :: own_in == n && met && f >= kept_at -> kept = false
           :: else
           fi;
           n = 0;
           f = 0
       }
    od
}

proctype others()
{
end:
    atomic { accepted -> append(number, OTHER) }
}

/* FLUSHALL, DEL, eviction. */
proctype loss()
{
end:
    do
    :: d_step { losses < LOSSES && at[number].open -> losses++; at[number].open = false }
    od
}

/* Whoever met the loss, or a lane that cannot go on (an id at its maximum). */
proctype replacer()
{
    byte n, m;
    bool a;
    atomic { n = number; a = accepted }
    atomic {
        if
        :: number == n && accepted == a && drawn < STREAMS -> m = drawn; drawn++
        :: else -> goto over
        fi
    }
#ifndef NOT_CLOSED
    at[n].open = false;
#endif
    d_step { at[m].open = true; at[m].length = 1; at[m].entry[0] = ANCHOR }
    atomic {
        if
        :: number == n && accepted == a ->
            number = m;
#ifndef ACCEPTED_AT_ONCE
            accepted = false;
#endif
            if
            :: folded_in == n ->
                folded_in = m;
#ifdef ACCEPTED_AT_ONCE
                folded = 0
#endif
            :: else
            fi
        :: else -> at[m].open = false
        fi
    }
over:
    skip
}

/* The first entry is read, then the script takes the era. */
proctype taker()
{
    byte n, f;
end:
    do
    :: atomic { !accepted && at[number].open -> n = number; f = at[number].first }
       atomic {
           if
           :: number == n && !accepted && ALL_SAID(n) ->
               accepted = true;
               if
#ifndef FOLDED_STAYS
               :: folded_in == n -> folded = f
#endif
               :: else
               fi
           :: else
           fi;
           n = 0;
           f = 0
       }
    od
}

inline read_tail()
{
    seen = f + 1;
    do
    :: seen < at[n].length -> key = key || at[n].entry[seen] == KEY; seen++
    :: else -> break
    od
}
#define IS_ANCHORED (at[n].open && f >= at[n].first && f < at[n].length)

proctype folder()
{
    byte n, f, seen;
    bool key, some;
end:
    do
    :: atomic { accepted && folded_in == number -> n = number; f = folded }
       key = shard;
       atomic {
           if
           :: IS_ANCHORED -> read_tail(); f = seen - 1; some = true
           :: else
           fi;
           seen = 0
       }
       shard = shard || (key && some);
       atomic {
           if
#ifdef STORES_IN_ANY_STREAM
           :: some && f > folded -> folded = f
#else
           :: some && number == n && accepted -> folded = (f > folded -> f : folded); f = folded
#endif
           :: else -> some = false
           fi
       }
       atomic {
           if
           :: some && at[n].open && f > at[n].first -> at[n].first = f
           :: else
           fi;
           some = false;
           key = false;
           n = 0;
           f = 0
       }
    od
}

proctype reader()
{
    byte n, f, seen;
    bool key;
    acknowledged;
end:
    do
    :: atomic { accepted && folded_in == number -> n = number; f = folded }
       key = shard;
       atomic {
           if
           :: IS_ANCHORED -> read_tail(); denied = !key; assert(!denied)
           :: else ->
#ifdef MISTAKEN
               mistaken = at[n].open && number == n && accepted && folded == f;
               assert(!mistaken)
#endif
               skip
           fi;
           seen = 0;
           key = false;
           n = 0;
           f = 0
       }
    od
}

init {
    atomic {
        at[0].open = true;
        at[0].length = 1;
        at[0].entry[0] = ANCHOR;
        run adds();
        run answers();
#ifdef OTHERS
        run others();
#endif
        run loss();
        run replacer();
#if REPLACERS > 1
        run replacer();
#endif
        run taker();
        run folder();
        run reader()
    }
}
