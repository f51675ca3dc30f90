/* SPDX-License-Identifier: MIT */
/* Home goes back behind a cutover. A row that only the rebuild has found is in the generations that drivers have built,
 * and not in the first one. The view says which generation is read, and its histories; a second master stays, and has
 * a registry, as home has. Drivers cut over, an operator has the pointer go back and forth. One reader
 * remembers the histories of the view that it believed last, and its generation; one is started again and again. Each
 * may sleep between any two commands. Home's server is a new one when it has gone back. README.md says what is left
 * out.
 *
 * denied: a reader says "absent" of the row by a look that began behind an answer from a generation with the row, if
 * nobody has rolled back since. */

#ifndef BACKS
#define BACKS 1     /* how often home goes back */
#endif
#ifndef CUTS
#define CUTS 1      /* how often a driver cuts over */
#endif
#ifndef FORWARDS
#define FORWARDS 1  /* how often an operator has it cut over again, behind a rollback */
#endif
#define BIT(n) (1 << (n))
typedef state {
    byte read;      /* number of the generation that is read; 0 lacks the row */
    byte other;     /* of the one before, or behind a rollback of the one after; NONE */
    short known;    /* histories, as bits */
    byte latest;    /* the last of them; 0: there is none */
    bool degraded;
    byte named;     /* home's registry */
};
#define NONE 255
state view, before;
bool is_kept;
byte named;         /* the second master's registry */
byte drawn, numbers, backs, cuts, forwards;
byte rolled = 1;    /* counts rollbacks */
bool told;          /* somebody has answered from a generation with the row */
bool denied;

inline copy(to, from)
{
    to.read = from.read; to.other = from.other; to.known = from.known; to.latest = from.latest;
    to.degraded = from.degraded; to.named = from.named
}

proctype home()
{
end:
    do
    :: d_step { !is_kept && backs < BACKS -> is_kept = true; copy(before, view) }
    :: d_step { is_kept -> is_kept = false; backs++; copy(view, before) }
    od
}

inline note_drawn()
{
    drawn++; view.known = view.known | BIT(drawn); view.latest = drawn
}

/* A build belongs to one history of home: near.pml. */
proctype driver()
{
    byte at;
end:
    do
    :: atomic { cuts < CUTS -> cuts++; at = backs }
       atomic {
           if
           :: at == backs -> view.other = view.read; numbers++; view.read = numbers; view.degraded = false;
#ifndef CUTOVER_NOT_SAID
              note_drawn()
#endif
           :: else
           fi;
           at = 0
       }
    od
}

proctype operator()
{
    byte read;
end:
    do
    :: atomic { view.other < view.read && forwards < FORWARDS ->
           read = view.read; view.read = view.other; view.other = read; read = 0;
           if
           :: view.read == 0 -> told = false; rolled++
           :: else
           fi }
    :: atomic { view.other != NONE && view.other > view.read && forwards < FORWARDS -> forwards++;
           read = view.read; view.read = view.other; view.other = read; read = 0;
#ifndef FORWARD_NOT_SAID
           note_drawn()
#endif
       }
    od
}

#define LACKS(h) ((h) != 0 && (BIT(h) & known) == 0)
#define SAW(h) ((h) == 0 || (BIT(h) & seen) != 0)
#ifdef ANY_GENERATION
#define IS_READ true
#else
#define IS_READ (seen_read == read)
#endif

/* One that does not remember is started again behind each answer. */
proctype reader(bool remembers)
{
    short known, seen;
    byte read, latest, n, m, last, seen_read, at;
    bool degraded, good, was_told;
end:
    do
    :: atomic { was_told = told; at = rolled;
           read = view.read; known = view.known; latest = view.latest; degraded = view.degraded }
       atomic {
           m = view.named;
#ifdef ALONE
           n = m;
#else
           n = named
#endif
       }
       atomic {
           if
           :: LACKS(n) || LACKS(m) || LACKS(last) ->
              known = view.known; /* the script compares with the view of now */
              view.known = known | seen | (n != 0 -> BIT(n) : 0) | (m != 0 -> BIT(m) : 0);
              if
              :: view.known == known -> skip
              :: view.known != known && seen != 0 && SAW(n) && SAW(m) && IS_READ ->
                 view.latest = (last != 0 -> last : view.latest)
              :: else -> note_drawn(); view.degraded = true /* the caller knows not all of it */
              fi
           :: else ->
              good = true;
              if
              :: n != latest && (named == 0 || (BIT(named) & known) != 0) -> named = latest
              :: n != latest && named != 0 && (BIT(named) & known) == 0 -> good = false
              :: else
              fi;
              if
              :: m != latest && (view.named == 0 || (BIT(view.named) & known) != 0) -> view.named = latest
              :: m != latest && view.named != 0 && (BIT(view.named) & known) == 0 -> good = false
              :: else
              fi
           fi;
           n = 0; m = 0;
           if
           :: good && remembers -> seen = known; last = latest; seen_read = read
           :: else
           fi;
           known = 0; latest = 0
       }
       if
       :: atomic { good && read > 0 -> told = told || (view.read > 0 && at == rolled) }
       :: atomic { good && read == 0 && !degraded -> denied = told && was_told && at == rolled; assert(!denied) }
       :: !good
       fi;
       atomic { read = 0; at = 0; was_told = false; degraded = false; good = false }
    od
}

init {
    atomic {
        view.other = NONE;
        run home();
        run driver();
        run operator();
        run reader(true);
        run reader(false)
    }
}
