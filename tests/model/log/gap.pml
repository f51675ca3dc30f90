/* SPDX-License-Identifier: MIT */
/* Home goes back to a view whose position was trimmed out of its lane since. Entry 1 is K. Generation 0 has K only if it
 * was folded before generation 1 took its place; the lane was trimmed by what generation 1 has. Nobody who had the
 * filter in memory is left, so nobody stores positions again. A writer that lives registers again, and may take the
 * lane's era from the view; whoever takes an era sets the position of a stream that took another's place to its first
 * entry. Whoever meets the gap at the view's position says that the filter is degraded, and replaces the lane as a lost
 * one. README.md says what is left out.
 *
 * In its time of grace generation 0 is folded, too, from a position of its own, and may be read again. The file may be
 * from then. Who folds generation 0 reads the lane from its position: if only that was trimmed, it ends the grace.
 *
 * denied: somebody says "absent" of K after its add was acknowledged. stuck: a position is not in the lane, and nobody
 * does anything about it. mistaken: the generation that is read may not be read. */

#define NEW 2                        /* the number of the lane's next stream */
bool acknowledged, trimmed, went_back, closed, degraded, denied, stuck;
bool era = true, no_position;        /* of the view: an era of the lane is accepted; the stream has no position yet */
byte current, lane = 1, folded;      /* of the view: the generation, the lane, the position in it */
bool shard[2];                       /* of each generation: the bit of K */
bool saved;                          /* there is a file with generation 0 and position 0 */
bool grace, saved_grace;             /* of the view: generation 0 may be read again; a file has that, with position 0 */
byte before;                         /* of the view in grace: the position of generation 0 */
bool mistaken;

#define HAS_GAP (lane == 1 && era && !closed && trimmed && folded == 0)
#define HAS_GAP_BEFORE (lane == 1 && era && !closed && trimmed && grace && folded == 1 && before == 0)

proctype writers() /* an add, folders, a build: all before home goes back */
{
    bool restored;
end:
    do
    :: atomic { !acknowledged -> acknowledged = true }
    :: atomic { !went_back && acknowledged && current == 0 -> shard[0] = true; folded = 1 }
    :: atomic { !went_back && acknowledged && current == 0 && !grace ->
           before = folded; grace = true; shard[1] = true; current = 1; folded = 1 }
    :: atomic { !went_back && grace && before == 0 -> shard[0] = true; before = 1 }
    :: atomic { !went_back && grace -> grace = false; before = 0 }
    :: atomic { !went_back && folded == 1 && (!grace || before == 1) -> trimmed = true }
    :: atomic { folded == 0 && current == 0 -> saved = true }
    :: atomic { grace && folded == 1 && before == 0 -> saved_grace = true }
    :: atomic { saved && !went_back -> went_back = true; current = 0; folded = 0; grace = false; before = 0 }
    :: atomic { saved_grace && !went_back -> went_back = true; current = 1; folded = 1; grace = true; before = 0 }
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

proctype operator() /* a rollback: generation 1 is not looked at any more */
{
end:
    atomic { grace -> current = 0; folded = before; grace = false; before = 0 }
}

proctype ender() /* folds generation 0 in its grace */
{
end:
    do
#ifdef WAITS_BEFORE
    :: atomic { HAS_GAP_BEFORE && went_back -> stuck = true; assert(!stuck) }
#else
    :: HAS_GAP_BEFORE ->
       atomic {
#ifdef MOVED_UP_BEFORE
           if
           :: grace && before == 0 -> before = 1
           :: else
           fi
#else
           if
#ifdef ENDED_WITHOUT_LOOKING
           :: true -> mistaken = current == 0; grace = false
#else
           :: current == 1 && grace && before == 0 -> grace = false
           :: else
#endif
           fi;
           assert(!mistaken)
#endif
       }
#endif
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
        run ender();
        run operator();
        run reader()
    }
}
