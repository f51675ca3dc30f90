/* SPDX-License-Identifier: MIT */
/* A lane is lost, also twice, and a lane without the entries takes its place; it becomes whole by a roll call: both
 * registered writers append what they keep. A folder, whose memory may be lost, and a resident reader. Shards are on a
 * node that is not lost; lane.pml has the closing. README.md says what is left out.
 *
 * denied: a reader says "absent" of the key after its add was acknowledged. */

#ifndef LOSSES
#define LOSSES 2
#endif
#define LENGTH 3
#define KEY 2   /* of writer 0; entry 0 is the anchor */
#define OTHER 3 /* of writer 1 */
typedef stream { bool open; byte length; byte entry[LENGTH] };
stream lane[3];
byte number;            /* in the view: of the lane */
bool degraded;
byte folded_lane, folded;
byte said[2];           /* number of the lane in which the writer has all that it keeps */
bool shard, acknowledged, denied;
byte losses;

#ifdef TAKES_AT_ONCE
#define ALL_SAID true
#elif defined(SAID_OF_ANY_LANE)
#define ALL_SAID (said[0] > 0 && said[1] > 0)
#else
#define ALL_SAID (said[0] == number && said[1] == number)
#endif
#ifdef FORGETS_BY_ANY_LANE
#define KEPT_IN(l) true
#else
#define KEPT_IN(l) (folded_lane == (l))
#endif
#ifdef FOLDED_OF_ANY_LANE
#define FOLDED_IN(l) folded
#else
#define FOLDED_IN(l) (folded_lane == (l) -> folded : 0)
#endif

inline find(l_, bytes_)
{
    place = 1;
    do
    :: place < lane[l_].length && lane[l_].entry[place] != bytes_ -> place++
    :: else -> break
    od;
    place = (place < lane[l_].length -> place : 0)
}

proctype writer(bit w)
{
    byte n, place, at_lane, at;
    bool kept, sent, sure;
end:
    do
    :: d_step { !sent && lane[number].open -> n = number; sent = true; kept = true; /* kept before it is sent */
           lane[n].entry[lane[n].length] = KEY + w; lane[n].length++ }
    :: d_step { sent && !sure && lane[n].open -> find(n, KEY + w);
           if
           :: place > 0 -> sure = true; at_lane = n; at = place; acknowledged = acknowledged || w == 0
           :: else
           fi;
           place = 0 }
    :: d_step { degraded && said[w] != number && n != number && lane[number].open ->
           n = number; find(n, KEY + w);
           if
#ifndef SAYS_WITHOUT_APPENDING
           :: kept && place == 0 -> lane[n].entry[lane[n].length] = KEY + w; lane[n].length++
#endif
           :: else
           fi;
           place = 0 }
    :: d_step { degraded && said[w] != n && n > 0 ->
           if
           :: lane[n].open -> find(n, KEY + w)
           :: else
           fi;
           if
#ifndef SAYS_WITHOUT_APPENDING
           :: !(kept && place == 0) && lane[n].open ->
#else
           :: true ->
#endif
               said[w] = n;
               at_lane = n;
               at = place
           :: else
           fi;
           place = 0 }
    :: d_step { kept && sure && KEPT_IN(at_lane) && folded >= at -> kept = false }
    od
}

proctype home()
{
end:
    do
    :: d_step { losses < LOSSES && lane[number].open -> losses++; lane[number].open = false }
    :: d_step { !lane[number].open && number < LOSSES ->
           number++;
           lane[number].open = true;
           lane[number].length = 1;
#ifndef NOT_DEGRADED
           degraded = true
#endif
       }
    :: d_step { degraded && ALL_SAID ->
           degraded = false;
           if
#ifdef FOLDED_AT_END
           :: folded_lane != number -> folded_lane = number; folded = lane[number].length - 1
#else
           :: folded_lane != number -> folded_lane = number; folded = 0
#endif
           :: else
           fi }
    od
}

inline apply()
{
    do
    :: applied + 1 < lane[n].length -> applied++; key = key || lane[n].entry[applied] == KEY
    :: else -> break
    od
}

proctype folder()
{
    byte n, applied, noted;
    bool key, wrote;
end:
    do
    :: d_step { n != number && !wrote -> n = number; applied = 0 } /* its memory stays */
    :: atomic { !wrote && lane[n].open && applied + 1 < lane[n].length -> apply() }
    :: d_step { !wrote && key -> key = shard; applied = FOLDED_IN(n) } /* its memory is lost */
    :: d_step { !wrote && lane[n].open -> shard = shard || key; noted = applied; wrote = true }
    :: d_step { wrote ->
           if
#ifdef STORED_FOR_ANY_LANE
           :: true -> folded = (folded_lane == number && folded > noted -> folded : noted); folded_lane = number
#else
           :: n == number -> folded = (folded_lane == n && folded > noted -> folded : noted); folded_lane = n
#endif
           :: else
           fi;
           wrote = false; noted = 0 }
    od
}

/* It keeps its bits; under another lane it loads the shards again. */
proctype reader()
{
    byte n, applied;
    bool key, unsure;
end:
    do
    :: d_step { n != number || unsure != degraded ->
#ifndef GOES_ON_AS_IT_WAS
           key = key || shard;
           applied = FOLDED_IN(number);
#else
           applied = (n != number -> 0 : applied);
#endif
           n = number; unsure = degraded }
    :: atomic { lane[n].open && !unsure && (acknowledged || applied + 1 < lane[n].length) ->
           d_step { apply(); denied = acknowledged && !key };
           assert(!denied) }
    od
}

init {
    atomic {
        lane[0].open = true;
        lane[0].length = 1;
        run writer(0);
        run writer(1);
        run home();
        run folder();
        run reader()
    }
}
