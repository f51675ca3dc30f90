/* SPDX-License-Identifier: MIT */
/* A deletion is told from a loss. A filter is made by adds, deleted, and made again, while a master comes back empty, or
 * older. One coordinator has had the filter and remembers it, and says so in the list of members; another one has not,
 * and makes it where it finds nothing. Home has the view, the list and, for a while, which incarnation was deleted last.
 * Each master has a registry. Any of them may stop between any two commands. README.md says what is left out.
 *
 * denied: a filter that has an acknowledged key, and that nobody has deleted, is said not to exist.
 * made_over: an add makes such a filter anew.
 * stuck: behind a deletion that was told, and no failure of home, the filter is said to be lost. */

#ifndef MASTERS
#define MASTERS 2
#endif
#ifndef FAILURES
#define FAILURES 1
#endif
#ifndef FAILS
#define FAILS HOME
#endif
#ifndef MAKES
#define MAKES 2
#endif
#define HOME 0
#define S 1
typedef server {
    byte named;    /* by its registry; 0: nothing */
#ifdef BY_COMPLETE
    byte since;    /* complete since that incarnation */
#endif
    byte view, record, deleted, listed; /* of home */
    bool deleting
};
server at[2], was;   /* was: the one that fails, as it was noted */
bool is_noted;
byte failures;
bool home_failed;
byte had;               /* the holder has that incarnation; 0: none */
byte drawn = 1, published, acknowledged; /* incarnations: the last ones */
byte asked, told;                       /* deleted: as somebody asked, as he was told */
bool denied, made_over, stuck;

inline copy(to, from)
{
    to.named = from.named;
#ifdef BY_COMPLETE
    to.since = from.since;
#endif
    to.view = from.view; to.record = from.record; to.deleted = from.deleted; to.listed = from.listed;
    to.deleting = from.deleting
}

inline clear(it)
{
    it.named = 0;
#ifdef BY_COMPLETE
    it.since = 100;
#endif
    it.view = 0; it.record = 0; it.deleted = 0; it.listed = 0; it.deleting = false
}

#ifdef BY_COMPLETE /* the rule before, whose LOST ends in other ways */
#define CHECK_STUCK skip
#else
#define CHECK_STUCK assert(!stuck)
#endif
#define GREATER(a, b) ((a) > (b) -> (a) : (b))

#define LATER(i_) ((i_) == 0 || (i_) > at[HOME].deleted)
proctype servers()
{
end:
    do
    :: d_step { !is_noted && failures < FAILURES -> is_noted = true; copy(was, at[FAILS]) }
    :: d_step { is_noted && failures < FAILURES -> failures++; home_failed = home_failed || FAILS == HOME;
#if defined(SLOTS) && !defined(LEFT_STAYS)
           clear(at[FAILS]); /* it was removed when the slot was not its master's lowest one any more */
#else
           copy(at[FAILS], was);
#endif
           clear(was); is_noted = false }
    :: d_step { failures < FAILURES -> failures++; home_failed = home_failed || FAILS == HOME;
           clear(at[FAILS]); clear(was); is_noted = false }
#ifdef EXPIRES /* at any time; or (SLOTS) when all have met the deletion */
    :: d_step { at[HOME].deleted != 0 -> at[HOME].deleted = 0; home_failed = true }
#elif defined(SLOTS)
    :: d_step { at[HOME].deleted != 0 && LATER(had) && LATER(at[HOME].listed) -> at[HOME].deleted = 0 }
#endif
    od
}

/* What is known of the incarnation i_ behind a look that found no view: d is what home says was deleted. */
#if defined(BY_COMPLETE)
#define WAS_DELETED(i_) (n == 0 && c <= (i_))
#elif defined(ANY_DELETION)
#define WAS_DELETED(i_) (d != 0)
#else
#define WAS_DELETED(i_) (d >= (i_))
#endif

inline ask_registries()
{
    n = at[HOME].named;
#ifdef BY_COMPLETE
    c = at[HOME].since;
#endif
    if
    :: MASTERS > 1 ->
       atomic { n = GREATER(n, at[S].named);
#ifdef BY_COMPLETE
           c = (c < at[S].since -> c : at[S].since);
#endif
       }
    :: else
    fi
}

/* It had the filter as that incarnation. */
proctype holder()
{
    byte d, n, v;
    bool behind;
#ifdef BY_COMPLETE
    byte c;
#endif
end:
    do
    :: atomic { had == 0 && at[HOME].view != 0 && !at[HOME].deleting && at[HOME].view > asked ->
           had = at[HOME].view; acknowledged = had }
    :: atomic { had != 0 && at[HOME].listed != had -> at[HOME].listed = had }
    :: atomic { had == 0 && at[HOME].listed != 0 -> at[HOME].listed = 0 }
    :: atomic { had != 0 -> behind = told >= had && !home_failed; v = at[HOME].view;
           d = at[HOME].deleted } /* one script, or the deletion last */
       if
       :: v > had -> had = 0
       :: v == 0 ->
#ifdef BY_COMPLETE
          ask_registries();
#endif
          atomic {
              if
              :: WAS_DELETED(had) ->
                 denied = had > asked && published == had;
                 assert(!denied);
                 had = 0
              :: else ->
                 stuck = behind;
                 CHECK_STUCK
              fi
          }
       :: else
       fi;
       atomic { v = 0; d = 0; n = 0; behind = false;
#ifdef BY_COMPLETE
           c = 0
#endif
       }
    od
}

#ifdef ANY_RECORD
#define IN_BETWEEN (at[HOME].record != 0)
#else
#define IN_BETWEEN (at[HOME].record >= n)
#endif

/* It never had the filter: an add of its makes it, a check is told that there is none. */
proctype newcomer()
{
    byte i, d, n, s, v, m;
    bool behind, lost;
#ifdef BY_COMPLETE
    byte c;
#endif
end:
    do
    :: atomic { at[HOME].view == 0 && drawn < MAKES -> s = at[HOME].listed; d = at[HOME].deleted;
           behind = !home_failed; m = told; lost = false };
       ask_registries();
       /* somebody serves it, or it is named, and it was not deleted */
#ifndef NOT_ASKED_WHO_SERVES
       atomic {
           if
#ifdef HEARTBEAT_IS_A_LOSS
           :: s != 0
#else
           :: s != 0 && !WAS_DELETED(s)
#endif
              -> lost = true; stuck = behind && m >= s; CHECK_STUCK
           :: else
           fi
       };
#endif
#ifndef NAMES_IGNORED
       if
#if defined(NAME_IS_A_LOSS) || defined(BY_COMPLETE)
#define NAME_COUNTS(d_) (n != 0)
#else
#define NAME_COUNTS(d_) (n > (d_))
#endif
       :: NAME_COUNTS(d) ->
          /* unless somebody makes it, or deletes it, or has by now */
          atomic { 
              if
              :: !(IN_BETWEEN) && at[HOME].view == 0 -> v = n
              :: else
              fi };
          if
          :: v != 0 -> ask_registries();
             atomic {
                 if
                 :: n == v && NAME_COUNTS(at[HOME].deleted) -> lost = true; stuck = behind && m >= n; CHECK_STUCK
                 :: else
                 fi
             }
          :: else
          fi
       :: else
       fi;
#endif
       if
       :: !lost ->
          atomic { /* a check is told so, and an add goes on */
              if
              :: acknowledged > asked && published == acknowledged && at[HOME].view == 0 ->
                 denied = MASTERS > 1 && at[HOME].record != acknowledged;
                 made_over = s == acknowledged;
                 assert(!denied);
                 assert(!made_over)
              :: else
              fi };
          atomic { drawn < MAKES -> drawn++; i = drawn };
          atomic { at[HOME].view == 0 -> at[HOME].record = i }; /* whatever was left is cleared */
          atomic { at[HOME].named < i -> at[HOME].named = i };
          if
          :: MASTERS > 1 -> atomic { at[S].named < i -> at[S].named = i }
          :: else
          fi;
          atomic {
              if
              :: at[HOME].view == 0 && at[HOME].record == i ->
                 at[HOME].view = i; at[HOME].record = 0; published = i; at[HOME].deleting = false
              :: else
              fi
          }
       :: else
       fi;
       atomic { i = 0; d = 0; n = 0; s = 0; v = 0; m = 0; behind = false; lost = false;
#ifdef BY_COMPLETE
           c = 0
#endif
       }
    od
}

inline leave()
{
    atomic {
        if
        :: at[HOME].named == i -> at[HOME].named = 0
        :: else
        fi };
    if
    :: MASTERS > 1 ->
       atomic {
           if
           :: at[S].named == i -> at[S].named = 0
           :: else
           fi }
    :: else
    fi
}

proctype deleter()
{
    byte i;
end:
    do
    :: atomic { at[HOME].view != 0 && !at[HOME].deleting -> i = at[HOME].view; asked = GREATER(asked, i) };
       leave();
       atomic { at[HOME].view == i -> at[HOME].deleting = true };
       atomic { at[HOME].view == i && at[HOME].deleting && at[HOME].record == 0 ->
           at[HOME].view = 0; at[HOME].deleting = false; at[HOME].record = i
#ifndef NOT_SAID
           ; at[HOME].deleted = GREATER(at[HOME].deleted, i)
#endif
       };
       atomic {
           if
           :: at[HOME].record == i -> at[HOME].record = 0
           :: else
           fi };
       leave();
       atomic { told = GREATER(told, i); i = 0 }
    od
}

/* A controller that has seen a view names it where nothing is named, as its deleter may have been late. */
proctype keeper()
{
    byte i;
    atomic { at[HOME].view != 0 && !at[HOME].deleting -> i = at[HOME].view };
    atomic {
        if
        :: at[HOME].named == 0 -> at[HOME].named = i
        :: else
        fi };
    if
    :: MASTERS > 1 ->
       atomic {
           if
           :: at[S].named == 0 -> at[S].named = i
           :: else
           fi }
    :: else
    fi
}

init {
    atomic {
        at[HOME].view = 1; at[HOME].named = 1; at[S].named = (MASTERS > 1 -> 1 : 0); published = 1;
        run servers();
        run holder();
        run newcomer();
        run deleter();
#ifdef KEEPS
        run keeper();
#endif
        skip
    }
}
