/* SPDX-License-Identifier: MIT */
/* Home goes back to a view whose position was trimmed out of its lane since. Entry 1 is K. Generation 0 has K only if it
 * was folded before generation 1 took its place; the lane was trimmed by what generation 1 has. Nobody who had the
 * filter in memory is left, so nobody stores positions again. A writer that lives registers again, and may take the
 * lane's era from the view; whoever takes an era sets the position of a stream that took another's place to its first
 * entry. Whoever meets the gap at the view's position says that the filter is degraded, and replaces the lane as a lost
 * one. README.md says what is left out.
 *
 * denied: somebody says "absent" of K after its add was acknowledged. stuck: the position is not in the lane, and
 * nobody does anything about it. */

#define NEW 2                        /* the number of the lane's next stream */
bool acknowledged, trimmed, went_back, closed, degraded, denied, stuck;
bool era = true, no_position;        /* of the view: an era of the lane is accepted; the stream has no position yet */
byte current, lane = 1, folded;      /* of the view: the generation, the lane, the position in it */
bool shard[2];                       /* of each generation: the bit of K */
bool saved;                          /* there is a file with generation 0 and position 0 */

#define HAS_GAP (lane == 1 && era && !closed && trimmed && folded == 0)

proctype writers() /* an add, folders, a build: all before home goes back */
{
    bool restored;
end:
    do
    :: atomic { !acknowledged -> acknowledged = true }
    :: atomic { !went_back && acknowledged && current == 0 -> shard[0] = true; folded = 1 }
    :: atomic { !went_back && acknowledged && current == 0 -> shard[1] = true; current = 1; folded = 1 }
    :: atomic { !went_back && folded == 1 -> trimmed = true }
    :: atomic { folded == 0 && current == 0 -> saved = true }
    :: atomic { saved && !went_back -> went_back = true; current = 0; folded = 0 }
    :: atomic { went_back && era && lane == 1 && !restored -> restored = true; era = false } /* a writer registers again */
    od
}

proctype taker() /* all writers have said that none of their entries is missing: K is forgotten */
{
end:
    do
    :: atomic { !era && !(lane == 1 && closed) ->
           era = true;
           if
#ifndef NOT_MOVED
           :: no_position -> no_position = false; folded = 0
#endif
#ifdef MOVED_UP
           :: !no_position && trimmed -> folded = 1
#endif
           :: else
           fi
       }
    :: atomic { era && no_position -> stuck = true; assert(!stuck) }
    od
}

proctype mender()
{
end:
    do
#ifdef WAITS
    :: atomic { HAS_GAP && went_back -> stuck = true; assert(!stuck) }
#else
    :: HAS_GAP ->
#ifdef CLOSES_FIRST
       closed = true;
#endif
#ifndef NOT_DEGRADED
       atomic {
           if
           :: lane == 1 && era && folded == 0 -> degraded = true
           :: else -> goto end /* the view has changed */
           fi
       }
#endif
       closed = true
#endif
    :: lane == 1 && closed -> /* a lane that is missing, for all that one can see */
       atomic {
           if
           :: lane == 1 -> lane = NEW; folded = 0; era = false; no_position = true
           :: else
           fi
       }
    od
}

proctype reader()
{
end:
    do
    :: atomic { /* a new one: the shard, then the lane behind the position */
           acknowledged && era && !(lane == 1 && closed) && !HAS_GAP && !degraded ->
           denied = !shard[current] && !(lane == 1 && folded == 0 && !trimmed);
           assert(!denied)
       }
    od
}

init {
    atomic {
        run writers();
        run taker();
        run mender();
        run mender();
        run reader()
    }
}
