/* SPDX-License-Identifier: MIT */
/* A lane is lost and another one takes its place: closed before it leaves the view. Beside it a build, from S0 to the
 * cutover, whose driver may sleep at any moment, a writer that knows any view, and a reader. One key: its row is there
 * before the add, as callers are told. Two lanes, 0 and 1; a lane holds at most the key's entry.
 *
 * denied: a reader says "absent" of the key after its add was acknowledged.
 * both: both lanes are open at once. */

#define NONE 0
#define OPEN 1
#define CLOSED 2
byte lane[2];
bool entry[2];      /* has the key's entry */
byte view;          /* number of the view's lane */
bool degraded;
bool shard[2];      /* generations: the key's bits */
bit current;
byte folded_lane[2]; /* of each generation: the lane that its position names */
bool open_row, row;  /* the transaction is open; committed */
byte losses;
bool acknowledged, denied, both;
#ifdef FOLDED_OF_ANY_LANE
#define FOLDED_NAMES_ANY true
#else
#define FOLDED_NAMES_ANY false
#endif

#define LOOK both = both || (lane[0] == OPEN && lane[1] == OPEN)

proctype writer()
{
    bit l;
    open_row = true;
    if
    :: l = 0
    :: l = 1
    fi;
    atomic { lane[l] == OPEN -> entry[l] = true }
    atomic { /* the tail read meets it; under a view that names this lane */
        lane[l] == OPEN && entry[l] && view == l -> acknowledged = true
    }
end:
    atomic { row = true; open_row = false }
}

/* FLUSHALL, DEL. XADD NOMKSTREAM makes none; somebody else may (MADE_AGAIN). */
proctype loss()
{
end:
    do
    :: atomic { losses < 1 && lane[0] == OPEN -> losses++; lane[0] = NONE; entry[0] = false }
#ifdef MKSTREAM
    :: atomic { losses == 1 && lane[0] == NONE -> losses++; lane[0] = OPEN; LOOK; assert(!both) }
#endif
    od
}

/* Whoever met the loss, or a lane that cannot go on: closes, makes the next one, changes the view. */
proctype replacer()
{
    if
    :: losses > 0
    :: true /* an id at its maximum */
    fi;
#ifndef CLOSED_AFTER
    atomic {
        if
        :: lane[0] == OPEN -> lane[0] = CLOSED
        :: else
        fi
    };
#endif
    atomic { lane[1] = OPEN; LOOK; assert(!both) };
    atomic {
        view = 1;
#ifndef NOT_DEGRADED
        degraded = true
#endif
    };
#ifdef CLOSED_AFTER
    atomic { lane[0] == OPEN -> lane[0] = CLOSED }
#endif
}

/* A build, or a healing: into generation 1. */
proctype builder()
{
    byte lane_at_start;
    bool key, was_degraded;
    lane_at_start = view; /* S0 */
#ifndef NO_SETTLE
    !open_row;
#endif
    key = row;
    atomic { /* the tail from S0 */
        if
        :: lane[lane_at_start] == OPEN -> key = key || entry[lane_at_start]
        :: else
        fi
    };
    shard[1] = key;
    atomic {
        if
#ifndef LANES_NOT_COMPARED
        :: view != lane_at_start
#endif
        :: else ->
            current = 1;
            folded_lane[1] = lane_at_start;
            degraded = false
        fi
    }
}

proctype reader()
{
    bit l, g;
    bool key;
    acknowledged;
    atomic { l = view; g = current; !degraded && (folded_lane[g] == l || FOLDED_NAMES_ANY) };
    key = shard[g];
    atomic { lane[l] == OPEN -> denied = !(key || entry[l]); assert(!denied) }
}

init {
    atomic {
        lane[0] = OPEN;
        run writer();
        run loss();
        run replacer();
        run builder();
        run reader()
    }
}
