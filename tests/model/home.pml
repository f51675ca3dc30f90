/* SPDX-License-Identifier: MIT */
/* The address of home leads to one of two servers, and may change at any time: the first one runs on when the other
 * one, a promoted replica or an empty server, takes its place, and has what it had when it comes back. Two
 * coordinators, one of which may be started anew; one other master, which answers. One key, one epoch. README.md
 * names the code.
 *
 * Property: once the key's add is acknowledged no check says "no". A mutation (-D...) is a variant of the rule. */

#ifndef MOVES
#define MOVES 2 /* of the address */
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#define TIMES 6 /* that trusted_ms may have */

typedef server {
    byte incarnation; /* of the view; 0: there is none */
    byte time;        /* trusted_ms */
    bool trusted[2];  /* servers, which are lineages of their own */
    bool built, key
};
typedef stamp { byte incarnation, time };

server at[2];
byte home, moves, restarts, incarnations;
stamp known[3]; /* to the coordinators; and what is noted on the other master */
#define NOTED 2
bool met = true; /* a keeper has met the server that is home now, and done what there was to do */
bool row, acknowledged, denied;

#ifdef BY_INCARNATION_ALONE
#define IS_OLDER(i, t, s) (false) /* of one incarnation by epochs, which are all the same here; of two never */
#else
#define IS_OLDER(i, t, s) (s.incarnation != 0 && (t) < s.time)
#endif
#define IS_REPLACED(i, t, s) (IS_OLDER(i, t, s) && (i) != s.incarnation)

/* view_stamp_learn(), latest.lua */
inline learn(who, i_, t_)
{
    if
    :: i_ != 0 && t_ >= known[who].time -> known[who].incarnation = i_; known[who].time = t_
    :: else -> skip
    fi
}

#define LATER(t, s) ((t) >= s.time -> (t) + 1 : s.time + 1)
#define MAY_TELL (at[0].time < TIMES - 2 && at[1].time < TIMES - 2 && known[NOTED].time < TIMES - 2)

/* That the address moves again before every keeper has met the server that is there now is a known limit. */
#define KNOWS(c) (known[c].incarnation == at[home].incarnation && known[c].time == at[home].time)
proctype address()
{
    do
    :: atomic {
           moves < MOVES && (at[home].incarnation == 0 ||
                             met && KNOWS(NOTED) && KNOWS(0) && KNOWS(1)) ->
           if
           :: moves == 0 -> /* a replica that has all, or what was there before the key, or nothing */
               if
               :: at[1].incarnation = at[0].incarnation;
                  at[1].time = at[0].time;
                  at[1].trusted[0] = at[0].trusted[0];
                  at[1].built = at[0].built;
                  if
                  :: at[1].key = at[0].key
                  :: !acknowledged -> skip
                  fi
               :: skip
               fi
           :: else -> skip
           fi;
           home = 1 - home;
           met = false;
           moves++
       }
    :: moves == MOVES -> break
    od
}

/* keeper.c: look(), of either coordinator, c. What is known is known before the view is read. */
proctype keeper()
{
    bit c;
    stamp before;
    byte i, t;
    do
    :: atomic { /* the view is read */
           if
           :: c = 0
           :: c = 1
           fi;
           before.incarnation = known[c].incarnation;
           before.time = known[c].time;
           i = at[home].incarnation;
           t = at[home].time
       }
       if
       :: atomic { /* fence_publish(): compared with what is stored */
              (i == 0 || IS_REPLACED(i, t, before)) && incarnations < 3 && MAY_TELL && at[home].incarnation == i ->
              incarnations++;
              at[home].incarnation = incarnations;
              at[home].time = LATER(t, before);
              at[home].trusted[home] = true;
              at[home].trusted[1 - home] = false;
              at[home].built = false;
              at[home].key = false;
              met = true
          }
       :: atomic { /* keeper_trust_none() */
              i != 0 && IS_OLDER(i, t, before) && i == before.incarnation && MAY_TELL && at[home].time == t ->
              at[home].trusted[0] = false;
              at[home].trusted[1] = false;
              at[home].time = LATER(t, before);
              met = true
          }
       :: atomic { /* tell_of_other_home(), before it is healed */
              i != 0 && !IS_OLDER(i, t, before) && !at[home].trusted[home] && MAY_TELL && at[home].time == t &&
              at[home].incarnation == i ->
#ifndef OTHER_HOME_NOT_TOLD
              at[home].time = LATER(t, before);
#endif
              met = true
          }
       :: atomic { /* healed, or built, by all rows: of what was read */
              i != 0 && !IS_OLDER(i, t, before) && MAY_TELL && at[home].incarnation == i && at[home].time == t ->
              at[home].key = at[home].key || row;
              at[home].built = true;
#ifndef TRUST_KEEPS_TIME
              if
              :: !at[home].trusted[home] -> at[home].time = LATER(t, before)
              :: else -> skip
              fi;
#endif
              at[home].trusted[home] = true;
              at[home].trusted[1 - home] = false;
              met = true
          }
       :: atomic { /* latest_note(): keeper_learn_latest() */
              !IS_OLDER(i, t, before) -> learn(NOTED, i, t); learn(c, known[NOTED].incarnation, known[NOTED].time)
          }
       :: skip
       fi;
       atomic { i = 0; t = 0; c = 0; before.incarnation = 0; before.time = 0 }
    :: atomic { /* one is started anew: learns what is noted, before it takes a request */
           restarts < RESTARTS ->
           restarts++;
           if
           :: c = 0
           :: c = 1
           fi;
           known[c].incarnation = 0;
           known[c].time = 0;
#ifndef STARTS_WITHOUT_NOTES
           learn(c, known[NOTED].incarnation, known[NOTED].time);
#endif
           c = 0
       }
    od
}

/* BEGIN; INSERT; BF.ADD; COMMIT */
proctype writer()
{
    row = true;
    atomic {
        at[home].incarnation != 0 && !IS_REPLACED(at[home].incarnation, at[home].time, known[0]) ->
        at[home].key = true
    }
    acknowledged = true
}

/* BF.EXISTS at either coordinator, c: a view was loaded, and the key is asked for. */
proctype checker()
{
    bit c;
    stamp before;
    byte i, t, told;
    bool trusted0, trusted1, built, must;
    do
    :: atomic {
           if
           :: c = 0
           :: c = 1
           fi;
           i = at[home].incarnation;
           t = at[home].time;
           before.incarnation = known[c].incarnation;
           before.time = known[c].time;
           trusted0 = at[home].trusted[0];
           trusted1 = at[home].trusted[1];
           built = at[home].built;
           told = moves;
           if
           :: i != 0 && !IS_OLDER(i, t, before) -> learn(c, i, t)
           :: else -> skip
           fi
       }
       must = acknowledged;
       if
       :: atomic {
              must && i != 0 && !IS_OLDER(i, t, before) && built && at[home].incarnation == i &&
#ifndef VIEW_OF_ANOTHER_HOME
              told == moves && /* catalog_trusts(): over the same connection to home */
#endif
              (home == 0 && trusted0 || home == 1 && trusted1) && !at[home].key -> denied = true; assert(!denied)
          }
       :: skip
       fi;
       atomic {
           i = 0;
           t = 0;
           c = 0;
           told = 0;
           trusted0 = 0;
           trusted1 = 0;
           built = 0;
           must = 0;
           before.incarnation = 0;
           before.time = 0
       }
    od
}

init {
    atomic {
        at[0].incarnation = 1;
        at[0].time = 1;
        at[0].trusted[0] = true;
        at[0].built = true;
        incarnations = 1;
        known[0].incarnation = 1;
        known[0].time = 1;
        known[1].incarnation = 1;
        known[1].time = 1;
        known[NOTED].incarnation = 1;
        known[NOTED].time = 1;
        run address();
        run keeper();
        run writer();
        run checker()
    }
}
