/* SPDX-License-Identifier: MIT */
/* A filter's life: it is deleted, its view is lost, it is made anew, by two makers at once, either of which may sleep
 * between any two commands, as may the deleter, a replacer of lanes, a writer and a reader with any view. Three
 * incarnations, each of which may have two lanes, one after the other. One key: its row is there before its transaction
 * ends, as callers are told. With SOURCELESS there are no rows. README.md says what is left out.
 *
 * denied: a reader says "absent" of the key after its add was acknowledged. Without a source a filter that is made anew
 * lacks what was acknowledged before it was published.
 * ghost: an add that began after the deletion was told is acknowledged by the deleted filter.
 * vanished: the view of a filter that nobody deleted is taken away. */

#ifndef LOSSES
#define LOSSES 2 /* of the view */
#endif
#ifndef REPLACEMENTS
#define REPLACEMENTS 2 /* of lanes */
#endif
#define NONE 0
#define OPEN 1
#define CLOSED 2
#define LANE(i, n) (((i) - 1) * 2 + (n))
byte lane[6];    /* of incarnation 1, 2 and 3: number 0 and 1 */
bool entry[6];   /* has the key's entry */
bool shard[4];   /* of each incarnation: the key's bits */
byte view = 1;   /* the incarnation; 0: there is no view */
bit number;      /* of its lane */
bool degraded, deleting;
bool open_row, row; /* the transaction is open; committed */
byte losses, replacements;
bool must;       /* it was acknowledged, and by the filter that there is */
bool told;       /* the deletion */
bool denied, ghost, vanished;

#ifdef SOURCELESS
#define FORGETS must = false
#else
#define FORGETS skip
#endif
#ifdef PUBLISHES_OVER
#define NO_VIEW true
#else
#define NO_VIEW (view == 0)
#endif
#ifdef VIEW_AWAY_OF_ANY
#define IS_OURS true
#else
#define IS_OURS (view == i && deleting)
#endif

inline close(l_)
{
    if
    :: lane[l_] == OPEN -> lane[l_] = CLOSED
    :: else
    fi
}

/* Every lane of every other incarnation than i, on all masters: one after the other. */
inline close_others(i)
{
    c = 0;
    do
    :: atomic { c < 6 && (c / 2 + 1 == i || lane[c] != OPEN) -> c++ }
    :: atomic { c < 6 && c / 2 + 1 != i && lane[c] == OPEN -> lane[c] = CLOSED; c++ }
    :: atomic { c == 6 -> c = 0; break }
    od
}

proctype maker(byte i)
{
    byte c;
    bool key;
    view == 0;
#ifndef LANE_AFTER_CLOSING
    lane[LANE(i, 0)] = OPEN;
#endif
#ifndef CLOSED_AFTER_SCAN
#ifndef NOT_CLOSED
    close_others(i);
#endif
#endif
#ifdef LANE_AFTER_CLOSING
    lane[LANE(i, 0)] = OPEN;
#endif
#ifndef SOURCELESS
#ifndef NO_SETTLE
    !open_row;
#endif
    key = row;
#endif
#ifdef CLOSED_AFTER_SCAN
    close_others(i);
#endif
    atomic {
        if
        :: NO_VIEW ->
            vanished = vanished || (view > 1);
            assert(!vanished);
            shard[i] = key; view = i; number = 0; degraded = false; deleting = false;
            FORGETS
        :: else
        fi
    }
}

proctype home()
{
#ifdef HOME_BACK
    byte was_view;
    bit was_number;
    bool was_degraded, was_deleting, noted, back;
#endif
end:
    do
    :: atomic { view != 0 && losses < LOSSES -> losses++; view = 0; number = 0; degraded = false; deleting = false }
#ifdef HOME_BACK /* failover of home: all of it as it was at some time before, once */
    :: atomic { !noted && !back -> noted = true; was_view = view; was_number = number; was_degraded = degraded;
                was_deleting = deleting }
    :: atomic { noted && (view != was_view || number != was_number) ->
                noted = false; back = true; view = was_view; number = was_number; degraded = was_degraded;
                deleting = was_deleting; was_view = 0; was_number = 0; was_degraded = false;
                was_deleting = false }
#endif
    od
}

/* Decides on the view that it has loaded, and may sleep before it begins. */
proctype deleter()
{
    byte i = 1;
    bit n;
    view == i;
#ifdef LANES_READ_BEFORE
    n = number;
#endif
    atomic {
#ifdef DELETES_WHAT_IS_THERE
        view != 0 -> i = view;
#else
        view == i ->
#endif
#ifndef NOT_SAID
        deleting = true;
#endif
#ifndef LANES_READ_BEFORE
        n = number
#endif
    }
#ifdef VIEW_AWAY_FIRST
    atomic { IS_OURS -> view = 0; number = 0; degraded = false; deleting = false };
#endif
#ifndef NOT_CLOSED_BY_DELETER
    atomic { close(LANE(i, n)) };
#endif
#ifndef VIEW_AWAY_FIRST
    atomic {
#ifdef NOT_SAID
        view == i ->
#else
        IS_OURS ->
#endif
        vanished = view > 1;
        assert(!vanished);
        view = 0; number = 0; degraded = false; deleting = false
    }
#endif
    told = true
}

/* Whoever finds that the view's lane is closed or at its end: closes it, makes the next one, changes the view, heals. */
proctype replacer()
{
    byte i, c;
    bool key;
end:
    do
    :: atomic { view != 0 && number == 0 && !deleting && replacements < REPLACEMENTS -> replacements++; i = view }
       atomic { close(LANE(i, 0)) };
       lane[LANE(i, 1)] = OPEN;
#ifndef REPLACES_WITHOUT_CLOSING
       close_others(i);
#endif
       atomic {
           if
           :: view == i && number == 0 && !deleting -> number = 1; degraded = true
           :: else -> i = 0
           fi
       }
#ifndef SOURCELESS
       if
       :: i != 0 ->
           !open_row;
           key = row;
           atomic {
               if
               :: view == i && number == 1 -> shard[i] = key; degraded = false
               :: else
               fi
           }
       :: else
       fi
#endif
       atomic { i = 0; key = false }
    od
}

proctype writer()
{
    byte i = 1;
    bit n;
    bool after_end;
    do
    :: atomic { view != 0 && (i != view || n != number) -> i = view; n = number }
    :: atomic { open_row = true; after_end = told; break }
    od;
    do
    :: atomic { view != 0 && (i != view || n != number) -> i = view; n = number }
    :: atomic { lane[LANE(i, n)] == OPEN -> entry[LANE(i, n)] = true }
       if
       :: atomic {
              lane[LANE(i, n)] == OPEN ->
              must = true;
#ifndef HOME_BACK /* which undoes the deletion */
              ghost = after_end && i == 1;
              assert(!ghost)
#endif
          }
          break
       :: lane[LANE(i, n)] != OPEN
       fi
    od;
    atomic { row = true; open_row = false }
}

proctype reader()
{
    byte i = 1;
    bit n;
    bool key, unsure;
end:
    do
    :: atomic { view != 0 && !deleting && (i != view || n != number || unsure != degraded) ->
           i = view; n = number; unsure = degraded; key = shard[i] }
    :: atomic { must && !unsure && lane[LANE(i, n)] == OPEN ->
           denied = !(key || entry[LANE(i, n)]);
           assert(!denied) }
    od
}

init {
    atomic {
        lane[LANE(1, 0)] = OPEN;
        run maker(2);
        run maker(3);
        run home();
        run deleter();
        run replacer();
        run writer();
        run reader()
    }
}
