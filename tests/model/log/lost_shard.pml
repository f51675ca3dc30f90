/* SPDX-License-Identifier: MIT */
/* A shard is lost under its node's era (DEL, FLUSHALL), and made again by a process that has it in memory. Two
 * processes that may fold, by memory or by the keys that they have met, and make the shard again; either may stop for
 * any time or end, so that its memory is gone; a reader that reads the block. With ACCEPTS operators have it made empty.
 * README.md says what is left out.
 *
 * denied: the reader says "absent" of the key after its add was acknowledged, and nobody has accepted its loss. */

#ifndef ENTRIES
#define ENTRIES 2
#endif
#ifndef TOKENS
#define TOKENS 3
#endif
#ifndef LOSSES
#define LOSSES 2
#endif

byte last, at; /* entries of the lane; the key's, 0: none yet */
bool there;    /* the shard */
bool tagged;   /* its block has its tag: else it is no answer */
bool bits;     /* of the key */
byte header;   /* its token */
byte number, folded; /* in the view */
byte writer; /* in the view, of the generation: its token, twice; and 1, where an operator accepted the loss */
byte losses;
byte gone;     /* times that bits were lost: with the shard, or as a blank one replaced it; */
byte victim;   /* the one that the key was lost by, 0: none, or it came back; */
byte accepted; /* and the last one that an operator has accepted: it looked behind that, and came to its end, */
bool degraded; /* until when nothing is called absent */
byte accepts;
bool denied;

#ifdef HEADER_NOT_COMPARED
#define MAY_WRITE there
#else
#define MAY_WRITE (there && header == t)
#endif
#ifdef MADE_OVER_ANY
#define IS_EARLIER true
#else
#define IS_EARLIER (header < t)
#endif
#ifdef MADE_WITH_TAGS
#define NEW_TAG true
#else
#define NEW_TAG false
#endif
#ifdef STORED_WITHOUT_TOKEN
#define STORES true
#else
#define STORES (writer == 2 * t)
#endif
#if defined(MISSING_IS_ZEROS)
#define ANSWERS true
#define NOTE_WRITER skip
#define NOTE_VICTIM(before) skip
#define NOTE_GONE skip
#else
#ifdef ACCEPTS
#define ANSWERS (there && tagged && 2 * header <= seen) /* of the writer that the view names, or an earlier one */
#define NOTE_WRITER seen = writer
#define NOTE_VICTIM(before) victim = before
#define NOTE_GONE gone = (bits -> gone + 1 : gone); victim = (bits -> gone : victim)
#else
#define ANSWERS (there && tagged)
#define NOTE_WRITER skip
#define NOTE_VICTIM(before) skip
#define NOTE_GONE skip
#endif
#endif
#ifdef NOT_WHOLE
#define HAS_IT true
#else
#define HAS_IT whole
#endif

proctype caller()
{
    do
    :: atomic { last < ENTRIES -> last++ }
    :: atomic { last < ENTRIES && at == 0 -> last++; at = last } /* and acknowledged */
    :: last == ENTRIES -> break
    od
}

proctype loss()
{
end:
    do
    :: d_step { losses < LOSSES -> losses++; NOTE_GONE; there = false; tagged = false; bits = false; header = 0 }
    od
}

/* What the lane has more gets into memory, and is marked. */
inline read_tail()
{
    d_step {
        if
        :: at > applied && !key -> key = true; dirty = true
        :: else
        fi;
        applied = last
    }
}

/* Under the token: what the shard has gets into memory, what memory has more is marked. */
inline join()
{
    d_step {
        if
        :: t == 0
        :: t != 0 && header > t -> t = 0
        :: t != 0 && there && header <= t ->
            header = t;
            lost = !tagged && whole;
            if
            :: whole && tagged -> dirty = key && !bits; key = key || bits
            :: else
            fi
        :: t != 0 && !there && header <= t -> lost = true
        fi
    }
}

proctype member()
{
    bool whole, key, dirty, lost;
    byte t, applied, noted, from;
end:
    do
    :: atomic { !whole -> from = folded }
       d_step {
           if
           :: there && tagged -> whole = true; key = bits; dirty = false; applied = from
           :: else
           fi
       }
    :: atomic { whole && last > applied -> read_tail() }
    :: atomic { number < TOKENS -> number++; t = number; writer = 2 * t; lost = false; from = folded }
       join()
    :: atomic { t != 0 && whole && !lost -> noted = applied }
       d_step { /* a shard without marks is not looked at */
           if
           :: dirty && MAY_WRITE -> dirty = false; bits = key; NOTE_VICTIM((key -> 0 : victim))
           :: dirty && !MAY_WRITE -> noted = 0; lost = true
           :: else
           fi
       }
       d_step {
           if
           :: STORES && noted > folded -> folded = noted
           :: else
           fi;
           noted = 0
       }
    :: atomic { t != 0 && !whole -> noted = last } /* by its keys: only blocks that have some are looked at */
       d_step {
           if
           :: at > from && at <= noted && MAY_WRITE && tagged -> bits = true; NOTE_VICTIM(0)
           :: at > from && at <= noted && !(MAY_WRITE && tagged) -> noted = 0
           :: else
           fi
       }
       d_step {
           if
           :: STORES && noted > folded -> folded = noted
           :: else
           fi;
           noted = 0
       }
    :: atomic { /* it is made again, by whoever has it in memory */
           HAS_IT && number < TOKENS && !(there && tagged) ->
#ifndef TAIL_BEFORE_TOKEN
           number++; t = number; writer = 2 * t;
#else
           read_tail();
#endif
#ifdef NOT_WHOLE
           applied = (whole -> applied : folded); /* what the lane still has */
#endif
           lost = true
       }
#ifdef TAIL_BEFORE_TOKEN
       atomic { number < TOKENS -> number++; t = number; writer = 2 * t }
#elif !defined(WITHOUT_TAIL)
       read_tail();
#endif
       d_step { /* a blank one, in place of what an earlier token has left */
           if
           :: !there || (IS_EARLIER && !(there && header == t)) ->
               NOTE_GONE; there = true; header = t; tagged = NEW_TAG; bits = false
           :: else
           fi
       }
#ifndef TOKEN_NOT_CHECKED
       d_step { t = (writer == 2 * t -> t : 0) } /* nobody has drawn a later one until the blank one was there */
#endif
       d_step {
           if
           :: HAS_IT && t != 0 && MAY_WRITE ->
               dirty = false; bits = key; tagged = true; lost = false; NOTE_VICTIM((key -> 0 : victim))
           :: else
           fi
       }
    :: atomic { t != 0 || whole ->
           t = 0; whole = false; key = false; dirty = false; lost = false; applied = 0; from = 0 } /* it ends */
    od
}

#ifdef ACCEPTS
#ifdef EMPTY_AT_ONCE
#define EMPTY true
#else
#define EMPTY false
#endif
#ifdef TOKEN_STAYS
#define SEAL skip
#else
#define SEAL writer = writer + 1 /* nobody draws by a view from before, nor has this token */
#endif
#ifdef FOLDED_BY_ACCEPTING
#define KEEPS_FOLDED folded = last
#else
#define KEEPS_FOLDED skip
#endif
#ifdef ACCEPTED_BY_ANY_VIEW
#define SAME_VIEW true
#else
#define SAME_VIEW (writer == was)
#endif
/* Nobody is known to have it in memory: the view is degraded, and an operator has it made empty. What members have is
 * not asked: one of them may have it and sleep, while others say that it lacks it. */
proctype operator()
{
    byte t, was, from, pardoned;
end:
    do
    :: atomic { !(there && tagged) -> degraded = true }
    :: atomic { degraded && number < TOKENS && accepts < ACCEPTS -> accepts++; was = writer } /* reads the view, */
       d_step { /* draws, if nobody has since, */
           if
           :: SAME_VIEW && number < TOKENS -> number++; t = number; writer = 2 * t
           :: else
           fi;
           was = 0
       }
#ifndef ACCEPTED_BY_ANY_VIEW
       d_step { t = (degraded -> t : 0) } /* reads the view again, */
#endif
       d_step { was = (there && tagged -> t : 0); from = gone; pardoned = victim } /* looks */
       d_step { /* a blank one */
           if
           :: t != 0 && was == 0 && (!there || header < t) ->
               NOTE_GONE; there = true; header = t; tagged = EMPTY; bits = false
           :: else
           fi
       }
#ifndef ACCEPTED_WITHOUT_TOKEN
       d_step { t = (writer == 2 * t -> t : 0) }
#endif
       d_step {
           if
           :: t != 0 && was == 0 && there && header == t -> tagged = true
           :: t != 0 && was == 0 && !(there && header == t) -> t = 0
           :: else
           fi
       }
       d_step {
           if
           :: t != 0 && writer == 2 * t -> degraded = false; SEAL; KEEPS_FOLDED;
               accepted = (from > accepted -> from : accepted);
               victim = (!bits && pardoned != 0 -> pardoned : victim) /* lost at the look, and back for a moment */
           :: else
           fi;
           t = 0; was = 0; from = 0; pardoned = 0
       }
    od
}
#endif

/* A view, the block, and the tail behind `folded` of that view. */
proctype reader()
{
    byte from, seen;
    bool key, acknowledged;
end:
    do
    :: atomic { from = folded; NOTE_WRITER; acknowledged = at != 0 && !degraded }
       atomic {
           if
           :: ANSWERS -> key = (there && bits) || at > from;
               denied = acknowledged && !key && (victim == 0 || victim > accepted); assert(!denied)
           :: else
           fi;
           key = false; from = 0; seen = 0; acknowledged = false
       }
    od
}

init {
    atomic {
        there = true;
        tagged = true;
        run caller();
        run loss();
        run member();
#ifndef ONE_MEMBER
        run member();
#endif
#ifdef ACCEPTS
        run operator();
        run operator();
#endif
        run reader()
    }
}
