/* SPDX-License-Identifier: MIT */
/* Followers of a table, one behind the other, as each takes a lease; with JOB one follower, which may begin again, and
 * a job that builds the next generation. Rows get growing ids, and are committed in any order. A follower adds what it
 * reads, and leaves a mark for the next one: rows at or below it are added. It may stop between any two commands for
 * any time. A mark that it sends may be executed at any later time, while it begins again: the connection broke. Rows
 * are read by their ids, and the table is truncated, so that ids begin again. With FEED a slot reports rows: it is
 * dropped, and a commit is in the log before others see its row. With MARKS_BACK two followers may
 * come, and home goes back, with the marks and the lease. With ASKS a job relies on the follower, and keys change; what the follower says
 * of itself may be executed late, or, with HOME_BACK, go back. README.md says what is left out.
 *
 * Sets of rows are bits: 1 for id 1, 2 for id 2.
 *
 * denied: a row that everybody sees is not in the generation that is read, and no follower that begins now reads it; or
 * a job takes for added what is not in its generation. */

#define IDS 2
#define ALL 3
#define NO_MARK 3
#define NOBODY 0
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef TRUNCATES
#if defined(FEED) || defined(FIRST)
#define TRUNCATES 0
#else
#define TRUNCATES 1
#endif
#endif

#ifdef FIRST /* no follower was there before: the first one begins at a job's mark, which may be that of the generation
              * that is built. What it does not read is in that one */
#define FIRST_MARK NO_MARK
#define ALWAYS false
#else
#define FIRST_MARK 0
#define ALWAYS true
#endif

/* Postgres. */
byte open, logged, seen; /* logged: in the log, not visible yet */
byte last, truncates, changes;
bool slot; /* it exists */
byte slots, queue; /* number of the slot; what it has not been relieved of */
/* Redis. */
byte holder, attempt, cover, asked, answered; /* the lease, and the status beside it: they expire together */
byte attempts;
byte mark = FIRST_MARK;
byte whole; /* the slot, by its number: what came before it is read; 0: none. It is a position of the log, which is
             * beyond no later slot's beginning */
byte low, recorded = 1; /* the record of the last job: its low-water mark, its generation */
byte generation = 1;
byte has; /* rows in the generation that is read */
bool builds;
byte built; /* rows in the one that is built */

bool noticed = true; /* that ids begin again, by whoever may write the next mark */
byte promised; /* rows that got their ids since */
byte due; /* rows that everybody saw when the job asked */
byte others_asked, clock;
bool went_back; /* home, to before the request, or to what is saved */
bool saved;
byte saved_mark, saved_whole, saved_holder, saved_attempt;
byte late = NO_MARK, late_of, late_attempt; /* a mark that is executed later; NO_MARK: none */
bool is_late; /* one was */
bool late_renewal;
byte renewal_of, renewal_attempt, renewal_cover, renewal_answered;
bool denied;

#define BIT(id) (1 << (id - 1))
#define ABOVE(m) (m >= IDS -> 0 : (ALL >> m) << m)
#define LARGEST ((seen & 2) != 0 -> 2 : seen)
#define BEGINNING (mark != NO_MARK -> mark : low)
#define OPEN (open | logged)
#ifdef GAP_OF_ANY_SLOT
#define IS_WHOLE(number) (whole != 0)
#else
#define IS_WHOLE(number) (whole == number)
#endif
#ifdef FEED
#define COVERED (has | (slot -> queue : 0) | (!(IS_WHOLE(slots)) || !slot -> ABOVE(BEGINNING) : 0))
#else
#define COVERED (has | ABOVE(BEGINNING))
#endif
#define IS_LOST ((seen & promised & ~COVERED & ALL) != 0 && (ALWAYS || !builds))

#if defined(ANY_MARK)
#define MAY_WRITE(who, a) true
#elif defined(MARK_BY_OWNER)
#define MAY_WRITE(who, a) (holder == who)
#else
#define MAY_WRITE(who, a) (attempt == a)
#endif
#ifdef COUNTED
#define ASK asked++
#else
#define ASK clock++; asked = clock
#endif
#ifdef HOME_BACK
#define IS_LATE_ONCE true
#else
#define IS_LATE_ONCE is_late
#endif
#ifdef RENEWED_BY_OWNER
#define MAY_RENEW(who, a) (holder == who)
#else
#define MAY_RENEW(who, a) (attempt == a)
#endif
#ifdef VIEW_OF_BEGIN
#define IS_OURS (recorded == begun || (builds && recorded == begun + 1))
#else
#define IS_OURS true
#endif

/* Adds are entries of the log: both generations get them. */
#define ADD(rows) has = has | (rows); built = built | (builds -> (rows) : 0)

proctype table()
{
end:
    do
    :: d_step { last < IDS -> last++; open = open | BIT(last);
                promised = promised | (noticed -> BIT(last) : 0) }
#ifdef FEED
    :: d_step { (open & 1) != 0 -> open = open & ~1; logged = logged | 1; queue = queue | (slot -> 1 : 0) }
    :: d_step { (open & 2) != 0 -> open = open & ~2; logged = logged | 2; queue = queue | (slot -> 2 : 0) }
    :: d_step { (logged & 1) != 0 -> logged = logged & ~1; seen = seen | 1 }
    :: d_step { (logged & 2) != 0 -> logged = logged & ~2; seen = seen | 2 }
    /* A changed key that no slot reports waits for the next job. */
    :: d_step { slot && slots < 2 -> slot = false; promised = promised & ~(queue & ~ABOVE(BEGINNING)); queue = 0 }
#endif
#ifdef ASKS
    :: d_step { (seen & 1) != 0 && changes < 1 -> changes++;
                has = has & ~1; built = built & ~1; due = due & ~1; queue = queue | (slot -> 1 : 0);
                promised = (slot -> promised : promised & ~1) }
    :: d_step { others_asked < 1 && holder != NOBODY -> others_asked++; ASK }
#ifdef HOME_BACK
    :: d_step { asked > 0 && !went_back -> went_back = true; asked--; answered = 0 }
#endif
#endif
#ifndef FEED
    :: d_step { (open & 1) != 0 -> open = open & ~1; seen = seen | 1 }
    :: d_step { (open & 2) != 0 -> open = open & ~2; seen = seen | 2 }
    :: d_step { OPEN == 0 && last > 0 && truncates < TRUNCATES -> truncates++;
                seen = 0; last = 0; promised = 0; has = 0; built = 0; noticed = false }
#endif
    :: d_step { holder != NOBODY -> holder = NOBODY; attempt = 0; cover = 0; asked = 0; answered = 0 }
#ifdef MARKS_BACK
    :: d_step { !saved && !went_back -> saved = true; saved_mark = mark; saved_whole = whole;
                saved_holder = holder; saved_attempt = attempt }
    :: d_step { saved -> saved = false; went_back = true; mark = saved_mark; whole = saved_whole;
                holder = saved_holder; attempt = saved_attempt;
                saved_mark = 0; saved_whole = 0; saved_holder = 0; saved_attempt = 0 }
#endif
    :: d_step { late != NO_MARK ->
           if
           :: MAY_WRITE(late_of, late_attempt) -> mark = late
           :: else
           fi;
           late = NO_MARK; late_of = 0; late_attempt = 0; is_late = true }
#ifdef ASKS
    :: d_step { late_renewal ->
           if
           :: MAY_RENEW(renewal_of, renewal_attempt) ->
                  cover = renewal_cover; answered = renewal_answered;
                  if
                  :: answered > asked -> answered = asked
                  :: else
                  fi
           :: else
           fi;
           late_renewal = false; is_late = true; renewal_of = 0; renewal_attempt = 0; renewal_cover = 0;
           renewal_answered = 0 }
#endif
    :: d_step { IS_LOST -> denied = true; assert(!denied) }
    od
}

inline take_lease()
{
    atomic {
        attempts < ATTEMPTS && (holder == NOBODY || holder == me) ->
            attempts++; mine = attempts; holder = me; attempt = mine; cover = 0; answered = 0; begun = generation
    }
}

inline write_mark(to)
{
    atomic {
        if
        :: MAY_WRITE(me, mine) -> mark = to
        :: !(MAY_WRITE(me, mine)) -> goto again
        :: !is_late && late == NO_MARK && attempts < ATTEMPTS ->
               late = to; late_of = me; late_attempt = mine; goto again
        fi
    }
}

#ifndef FEED
proctype follower(byte me)
{
    byte mine, begun, safe, noted, waits;
    bool is_new; /* the mark */
again:
    atomic { mine = 0; safe = 0; noted = 0; waits = 0; is_new = false }
    take_lease();
    atomic {
        if
        :: mark != NO_MARK -> safe = mark
        :: mark == NO_MARK && IS_OURS -> safe = low
        :: else -> safe = LARGEST; is_new = true
        fi
    }
    if
    :: is_new -> write_mark(safe); is_new = false
    :: else
    fi;
end:
    do
    :: atomic { noted = LARGEST;
           if
#ifndef NOTHING_GOES_BACK
           :: noted < safe -> safe = noted; goto lower
#endif
           :: else -> noticed = (attempt == mine -> true : noticed)
           fi }
back:
#ifdef NO_SETTLE
       waits = 0;
#else
       waits = OPEN;
#endif
       (waits & OPEN) == 0;
#ifdef MARK_BEFORE_ROWS
       write_mark(noted);
#endif
       d_step { ADD(seen & ABOVE(safe) & ~ABOVE(noted)); waits = 0 }
#ifndef MARK_BEFORE_ROWS
       if
       :: noted != safe || mark == NO_MARK -> write_mark(noted)
       :: else
       fi;
#endif
       safe = noted
    od;
lower:
    write_mark(safe);
    noticed = (attempt == mine -> true : noticed);
    goto back
}
#else
proctype follower(byte me)
{
    byte mine, begun, noted, waits, of_slot, stage, left, request, owed, fulfilled;
    bool again_behind;
again:
    atomic { mine = 0; noted = 0; waits = 0; of_slot = 0; stage = 0; left = 0; request = 0; owed = 0; fulfilled = 0;
             again_behind = false }
    take_lease();
    d_step {
        if
        :: !slot -> slot = true; slots++; queue = 0
        :: else
        fi
    }
    of_slot = slots;
    atomic {
        again_behind = !(IS_WHOLE(of_slot));
        if
        :: again_behind && (mark != NO_MARK || IS_OURS) -> ADD(seen & ABOVE(BEGINNING))
        :: else
        fi
    }
#ifdef GAP_READ_ONCE
    atomic {
        if
        :: MAY_WRITE(me, mine) -> whole = of_slot; again_behind = false
        :: else -> goto again
        fi
    }
#endif
    atomic {
        if
        :: attempt == mine -> cover = mine
        :: else -> goto again
        fi
    }
end:
    do
    :: atomic { !slot || slots != of_slot -> goto again }
    /* Rows that are reported. */
    :: d_step { slot && slots == of_slot && (queue & seen & 1) != 0 -> ADD(1) ; queue = queue & ~1 }
    :: d_step { slot && slots == of_slot && (queue & seen & 2) != 0 -> ADD(2) ; queue = queue & ~2 }
#ifndef ASKS
    /* The mark. */
    :: stage == 0 && (LARGEST > 0) && mark != LARGEST -> noted = LARGEST; stage = 1
    :: stage == 1 -> waits = OPEN; stage = 2
    :: d_step { stage == 2 && slot && slots == of_slot && (waits & OPEN) == 0 -> left = queue; waits = 0; stage = 3 }
    :: d_step { stage == 3 && slot && slots == of_slot && (left & queue) == 0 -> left = 0; stage = 4 }
    :: stage == 4 ->
           if
           :: again_behind ->
                  atomic {
                      if
                      :: mark != NO_MARK || IS_OURS -> ADD(seen & ABOVE(BEGINNING))
                      :: else
                      fi
                  }
                  atomic {
                      if
                      :: MAY_WRITE(me, mine) -> whole = of_slot; again_behind = false
                      :: else -> goto again
                      fi
                  }
           :: else
           fi;
           write_mark(noted);
           d_step { stage = 0; noted = 0 }
#else
    /* Requests. */
    :: d_step { request == 0 && attempt == mine && asked > fulfilled && slot && slots == of_slot ->
                request = asked; owed = queue }
    :: d_step { request != 0 && slot && slots == of_slot && (owed & queue) == 0 ->
                fulfilled = request; request = 0; owed = 0 }
    :: fulfilled > answered ->
           atomic {
               if
               :: attempt == mine -> answered = fulfilled
               :: attempt != mine -> goto again
               :: !IS_LATE_ONCE && !late_renewal && attempts < ATTEMPTS ->
                      late_renewal = true; renewal_of = me; renewal_attempt = mine; renewal_cover = mine;
                      renewal_answered = fulfilled; goto again
               fi
           }
#endif
    od
}
#endif

/* Whoever began before may not write a mark any more. */
#define NOTICE noticed = (holder == NOBODY && truncates == at -> true : noticed)

proctype job()
{
    byte lowest, waits, to, was, relies, request;
    byte at;
settle:
    atomic { at = truncates; lowest = 0; to = 0; was = 0; request = 0 }
#ifdef ASKS
    relies = cover;
#endif
    lowest = LARGEST;
    d_step { builds = true; built = 0; waits = OPEN }
    (waits & OPEN) == 0;
    d_step { recorded = generation + 1; low = lowest }
#ifdef NOT_LOWERED
    NOTICE;
#else
    do
    :: atomic { mark == NO_MARK || mark <= lowest -> NOTICE; break }
    :: atomic { mark != NO_MARK && mark > lowest -> was = mark }
       atomic {
           if
#ifdef LOWERED_BLINDLY
           :: mark = lowest; NOTICE; break
#else
           :: mark == was -> mark = lowest; NOTICE; break
           :: else
#endif
           fi
       }
    od;
#endif
    atomic { built = built | seen }
#ifdef ASKS
    if
    :: relies != 0 -> 
       atomic {
           if
           :: holder != NOBODY -> ASK; request = asked; due = seen
           :: else -> goto alone
           fi
       }
       do
       :: atomic {
              if
              :: cover != relies -> due = 0; goto alone
              :: cover == relies && answered >= request ->
                     denied = (due & ~built & ALL) != 0; assert(!denied); due = 0; goto cutover
              :: else
              fi
          }
       od
    :: else
    fi;
alone:
#endif
    to = LARGEST;
    waits = OPEN;
    (waits & OPEN) == 0;
    d_step {
#ifdef FEED
        built = built | seen;
#else
        built = built | (seen & ABOVE(low) & ~ABOVE(to));
#endif
        low = to }
cutover:
    atomic {
        if
        :: truncates != at -> builds = false; goto settle
        :: else -> has = built; built = 0; builds = false; generation++;
                   at = 0; lowest = 0; to = 0; was = 0; relies = 0; request = 0; waits = 0
        fi
    }
}

init
{
    atomic {
        run table();
#ifdef JOB
        run job();
#else
#if !defined(FEED) || defined(MARKS_BACK)
        run follower(2);
#endif
#endif
        run follower(1)
    }
}
