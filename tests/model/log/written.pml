/* SPDX-License-Identifier: MIT */
/* The shards' node fails over and loses what was folded, while the pointer between two generations may go back. Writers,
 * any of which may stop for any time, write what they have in memory of the generation that they know is read, and say so;
 * when all have, the view takes the node's era. A reader by blocks. The lane was trimmed. With BACKS the node also goes
 * back under the id that the view accepts; who notices has the view accept it no more. README.md says what is left out.
 *
 * denied: the reader says "absent" of the key, which was acknowledged and folded into both generations. */

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef BACKS
#define BACKS 0
#endif
#define NOTHING 255

bool shard[2] = true; /* of each generation: the key's bits */
bool built[2] = true; /* may be read */
bit current = 1;
byte era = 1, view_era = 1;
bool degraded, denied;
byte said_era[WRITERS], said_of[WRITERS] = NOTHING;
bool wholly[WRITERS];

#ifdef SAYS_NO_GENERATION
#define COUNTS(w) (said_era[w] == era)
#else
#define COUNTS(w) (said_era[w] == era && said_of[w] == current)
#endif
#ifdef SAID_UNSEEN
#define IS_READ_STILL true
#else
#define IS_READ_STILL (current == g)
#endif

#ifdef DOUBTFUL_LEFT_OUT
#define DOUBTFUL true
#else
#define DOUBTFUL partly /* any of them may be in doubt */
#endif

/* Generation 1 is in its memory, with the key; of another one it has nothing but what is in Redis. */
proctype writer(byte w)
{
    bit g;
    byte e;
end:
    do
    :: atomic { era != view_era && !COUNTS(w) -> g = current; e = era }
       atomic {
           if
           :: e == era && g == 1 -> shard[g] = true
           :: else
           fi
       }
       atomic {
           if
           :: IS_READ_STILL && e == era -> said_era[w] = e; said_of[w] = g; wholly[w] = g == 1
           :: else
           fi
       }
    od
}

proctype taker()
{
    byte w;
    bool all, partly;
end:
    do
    :: atomic {
           era != view_era ->
           all = true;
           partly = false;
           for (w : 0 .. WRITERS - 1) {
               partly = partly || (COUNTS(w) && !wholly[w])
           }
           for (w : 0 .. WRITERS - 1) {
               all = all && (COUNTS(w) || DOUBTFUL)
           }
           if
           :: all ->
               view_era = era;
               degraded = degraded || partly;
#ifndef OTHER_STAYS_BUILT
               built[1 - current] = false
#endif
           :: else
           fi;
           w = 0; all = false; partly = false
       }
    od
}

/* Goes back, and forth. */
proctype operator()
{
    byte n;
    do
    :: atomic { n < 2 && built[1 - current] -> current = 1 - current; n++ }
    :: break
    od
}

proctype failover()
{
    byte n, w;
    do
    :: atomic { era < 3 -> shard[0] = false; shard[1] = false; era++ }
    :: atomic { n < BACKS && view_era == era -> n++;
           shard[0] = false; shard[1] = false; view_era = 0;
#ifndef SAID_STAYS
           for (w : 0 .. WRITERS - 1) {
               said_era[w] = 0
           }
#endif
           w = 0 }
    :: break
    od
}

proctype reader()
{
end:
    do
    :: atomic { era == view_era && !degraded && !shard[current] -> denied = true; assert(!denied) }
    od
}

init {
    byte w;
    atomic {
        for (w : 0 .. WRITERS - 1) {
            run writer(w)
        }
        run taker();
        run operator();
        run failover();
        run reader()
    }
}
