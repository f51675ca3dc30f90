/* SPDX-License-Identifier: MIT */
/* Adds would make a filter where there is no view. It was lost: home came back empty, and the other master still names
 * it (1). Or (NEVER) it never was. A maker writes a record, names its incarnation where nothing is named, and is refused
 * where something was; it may die between any two commands, or (ZOMBIES) sleep there and lose its mutex. A coordinator
 * that never had the filter checks keys. README.md says what is left out.
 *
 * denied: the filter was lost, and a check is told that it does not exist.
 * made_over: it was lost, and an add makes it anew.
 * stuck: it never was, and an add is told that it was lost. */

#ifndef MAKES
#define MAKES 3
#endif
#define HOME 0
#define S 1
byte named[2];       /* by the registry of a master; 0: nothing */
byte record, view;   /* of home; 0: none */
bool stopping;       /* the record says `deleting` */
byte drawn = 1;
bool mutex, denied, made_over, stuck;
#ifdef NEVER
#define WAS 0
#else
#define WAS 1
#endif

#define GREATER(a, b) ((a) > (b) -> (a) : (b))
#define LESS(a, b) ((a) > (b) -> (b) : (a))

#define LEAVES(m_, i_) atomic { \
    if \
    :: named[m_] == (i_) -> named[m_] = 0 \
    :: else \
    fi }

/* n: the latest one that is named; b: another one, 0: there is none */
#define LOOKS d_step { x = named[HOME] }; \
    d_step { n = GREATER(x, named[S]); b = (x == named[S] -> 0 : LESS(x, named[S])); x = 0 }

#ifdef ZOMBIES
#define TAKES skip
#define GIVES skip
#define DIES skip
#else
#define TAKES atomic { !mutex -> mutex = true }
#define GIVES mutex = false
#define DIES \
    if \
    :: goto out \
    :: skip \
    fi
#endif

#define ENTERS(m_) atomic { \
    if \
    :: named[m_] == 0 || named[m_] == i -> named[m_] = i \
    :: else -> busy = true \
    fi }
#define SUCCEEDS(m_) atomic { named[m_] = GREATER(named[m_], i) }

proctype maker()
{
    byte i, left, n, b, x;
    bool busy, was;
end:
    do
    :: drawn < MAKES ->
       TAKES;
       atomic { drawn < MAKES -> drawn++; i = drawn };
       do
       :: atomic { view == 0 && record == 0 -> record = i; stopping = false; break }
       :: atomic { view == 0 && record != 0 -> left = record; stopping = true };
          DIES;
#ifndef NOT_LEFT
          LEAVES(HOME, left);
          DIES;
          LEAVES(S, left);
          DIES;
#endif
          atomic {
              if
              :: record == left -> record = 0; was = true
              :: else
              fi; left = 0 };
          DIES
       :: view != 0 -> goto out
       od;
       DIES;
       ENTERS(HOME);
       DIES;
       ENTERS(S);
       DIES;
       if
       :: busy ->
          LEAVES(HOME, i);
          DIES;
          LEAVES(S, i);
          LOOKS;
          if
#ifdef ANY_RECORD
          :: n != 0 && !was ->
#else
          :: n != 0 ->
#endif
             atomic { stuck = WAS == 0; assert(!stuck);
                 if
                 :: record == i -> record = 0
                 :: else
                 fi };
             goto out
          :: else
          fi;
          DIES;
          SUCCEEDS(HOME);
          DIES;
          SUCCEEDS(S)
       :: else
       fi;
       DIES;
       atomic {
           if
           :: view == 0 && record == i && !stopping ->
              view = i; record = 0; made_over = WAS != 0; assert(!made_over)
           :: else
           fi };
out:   atomic { GIVES; i = 0; left = 0; n = 0; b = 0; busy = false; was = false }
    od
}

/* Whether what is named is explained: by a record of its incarnation, or by a view by now. */
#ifdef LATER_RECORD
#define EXPLAINS (r >= n)
#elif defined(BEFORE_IGNORED)
#define EXPLAINS (r == n)
#else
#define EXPLAINS (r == n && b == 0)
#endif

proctype checker()
{
    byte n, b, r, x, first;
    bool lost;
end:
    do
    :: atomic { view == 0 -> lost = true };
       LOOKS;
       first = n;
       if
       :: n == 0 -> lost = false
       :: else ->
          d_step { r = record };
          if
          :: r != 0 && EXPLAINS -> lost = false
          :: else ->
             d_step { lost = view < n }
          fi
       fi;
       if
       :: lost ->
          LOOKS;
#ifdef ANOTHER_NAME
          lost = n == first
#else
          if
          :: n == 0 -> lost = false
          :: else ->
             d_step { r = record };
             d_step { lost = !(r != 0 && EXPLAINS) && view < n }
          fi
#endif
       :: else
       fi;
       atomic { denied = !lost && WAS != 0; assert(!denied);
           n = 0; b = 0; r = 0; first = 0; lost = false }
    od
}

init {
    atomic {
#ifndef NEVER
        named[S] = WAS;
        if
        :: named[HOME] = WAS
        :: named[HOME] = 0
        fi;
#endif
        run maker();
        run maker();
#ifndef UNCHECKED
        run checker()
#endif
    }
}
