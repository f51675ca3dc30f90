/* SPDX-License-Identifier: MIT */
/* The metadata node, which has the lane, fails over to a replica that has all of it, and its address may lead back to
 * either server at any time, as it was left. One incarnation; a second master stays and has a registry, as each server
 * has. A view says which histories it comes from: every replication id that it took adds one. One key; takers have the
 * view take the replication id of its server; a writer and readers, which may sleep between any two commands.
 * README.md says what is left out. With REMEMBERS the view was made with a replication id that is no history of it, and
 * a reader remembers the histories of the view that it believed last. With APART the lane is on another node, whose
 * address leads elsewhere and back together with the metadata node's: so a view never accepts its own server's id.
 *
 * denied: a reader says "absent" of the key after its add was acknowledged. */

#ifndef SWITCHES
#define SWITCHES 2
#endif
#define BIT(n) (1 << (n))
#define FRESH 3      /* histories: 1 and 2 are the servers' replication ids, 3 and later are drawn */
#ifndef LAST
#define LAST 6
#endif
byte home;           /* the server that the address leads to: 0 or 1 */
byte switches;
bool copied;         /* server 1 has been a replica, and is one no more */
byte known[2];       /* of the view on a server: its histories, as bits */
byte latest[2];      /* the last of them */
byte era[2];         /* that the view on a server accepts; server s is of s + 1 */
bool degraded[2];
bool entry[2];       /* the lane has the key */
byte named[3];       /* by the registries: of the servers, and of the second master */
byte drawn = FRESH;
bool acknowledged, denied;

proctype address()
{
end:
    do
    :: atomic { switches < SWITCHES ->
           if
           :: !copied -> copied = true;
              known[1] = known[0]; latest[1] = latest[0]; era[1] = era[0]; degraded[1] = degraded[0];
              entry[1] = entry[0]; named[1] = named[0]
           :: else
           fi;
           home = 1 - home; switches++ }
    od
}

/* A registry names @h, unless it names what the caller's view, which knows @k, does not know. */
inline name(at_, h, k)
{
    atomic {
        if
#ifndef NAMED_OVER
        :: (BIT(named[at_]) & (k)) == 0 -> skip
#endif
        :: else -> named[at_] = h
        fi
    }
}

#ifdef APART
#define IS_NEW true
#elif defined(ACCEPTED_IS_NEW)
#define IS_NEW ((BIT(home + 1) & seen) == 0)
#else
#define IS_NEW ((BIT(home + 1) & seen) == 0 && era[home] != home + 1)
#endif

/* Read the view, then the registries; @good: it is believed. One that does not know what a registry names has
 * missed something. It is degraded, and gets a history of its own. */
inline look()
{
    atomic { k = known[home]; l = latest[home]; e = era[home]; d = degraded[home] }
#ifdef NOT_ASKED
    good = true;
#else
    n = named[2];
    m = named[home];
    if
#ifdef REMEMBERS
    :: ((BIT(n) & k) == 0 || (BIT(m) & k) == 0) && (BIT(n) & seen) != 0 && (BIT(m) & seen) != 0 && IS_NEW ->
       atomic { /* it only notes them: its server is a new one */
           known[home] = known[home] | seen; latest[home] = n;
#if defined(APART) && !defined(LEFT_STAYS)
           if
           :: era[home] != accepted -> /* an address leads back to a server that was left */
              era[home] = 0;
              if
              :: drawn < LAST -> known[home] = known[home] | BIT(drawn); latest[home] = drawn; drawn++
              :: else
              fi
           :: else
           fi
#endif
       }
       good = false
    :: ((BIT(n) & k) == 0 || (BIT(m) & k) == 0) && !((BIT(n) & seen) != 0 && (BIT(m) & seen) != 0 && IS_NEW) ->
#else
    :: (BIT(n) & k) == 0 || (BIT(m) & k) == 0 ->
#endif
#ifdef ONLY_REFUSED
       good = false
#else
       atomic { drawn < LAST ->
           known[home] = known[home] | BIT(n) | BIT(m);
#ifndef NO_HISTORY_OF_ITS_OWN
           known[home] = known[home] | BIT(drawn); latest[home] = drawn; drawn++;
#endif
#ifndef NOT_DEGRADED
           degraded[home] = true
#endif
       }
       good = false
#endif
    :: else ->
       good = true;
#ifndef NOT_NAMED
       if
       :: n != l -> name(2, l, k); good = false
       :: else
       fi;
       if
       :: m != l -> name(home, l, k); good = false
       :: else
       fi
#endif
    fi;
    n = 0; m = 0
#endif
}

proctype taker()
{
    byte k, l, e, n, m, at, to, seen, accepted;
    bool d, good;
end:
    do
    :: look();
       if
       :: good && e != home + 1 ->
          to = home + 1; /* INFO */
          atomic { /* a script, wherever the address leads by then */
              if
              :: era[home] == e ->
                 era[home] = to;
#ifdef APART
                 /* a roll call: the writer appends it again */
                 entry[to - 1] = entry[to - 1] || (e == 0 && acknowledged);
#endif
#ifndef HISTORY_NOT_SAID
                 if
                 :: (known[home] & BIT(to)) == 0 -> known[home] = known[home] | BIT(to); latest[home] = to
                 :: else
                 fi
#endif
              :: else
              fi
          };
          to = 0
       :: else
       fi;
       atomic { k = 0; l = 0; e = 0; d = 0; good = false }
    od
}

/* Entries count on the connection, and under the replication id, that the look was for. */
proctype writer()
{
    byte k, l, e, n, m, at, seen, accepted;
    bool d, good;
    do
    :: atomic { at = switches; good = false };
       look();
       if
       :: atomic { good && e == home + 1 && at == switches -> entry[home] = true; acknowledged = true; break }
       :: true
       fi
    od
}

proctype reader()
{
    byte k, l, e, n, m, at, seen, accepted;
    bool d, good;
end:
    do
    :: atomic { k = 0; l = 0; e = 0; d = 0; good = false; at = switches };
       look();
#ifdef REMEMBERS
       atomic {
           if
           :: good -> seen = k; accepted = e
           :: else
           fi
       };
#endif
       if
       :: atomic { good && e == home + 1 && acknowledged &&
#ifdef READS_ON
              true
#else
              at == switches
#endif
              -> denied = !d && !entry[home]; assert(!denied) }
       :: true
       fi
    od
}

init {
    atomic {
        era[0] = 1;
#ifdef REMEMBERS
        known[0] = BIT(0); /* no history is number 0 */
#else
        known[0] = BIT(1); latest[0] = 1;
        named[0] = 1; named[2] = 1;
#endif
        run address();
        run taker();
        run writer();
        run reader()
    }
}
