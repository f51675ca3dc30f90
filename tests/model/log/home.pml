/* SPDX-License-Identifier: MIT */
/* The address of the metadata node leads to another, empty server and back to the first one, which ran on. Two makers
 * make the filter anew, either of which may sleep between any two commands, as may the writer and the reader. Registries on
 * both servers and on a second node, which stays, name the latest incarnation. One key: its row is there when its
 * transaction ends, as callers are told. The lane is on the metadata node. README.md says what is left out.
 *
 * denied: a reader says "absent" of the key after its add was acknowledged and its row committed. */

#ifndef SWITCHES
#define SWITCHES 2
#endif
#define SERVERS 2
#define LANE(s, i) ((s) * 5 + (i))
bit home;            /* the server that the address leads to */
byte switches;
byte view[SERVERS];  /* the incarnation; 0: there is none */
byte record[SERVERS]; /* the incarnation that is being made; 0: none is */
byte named[3];       /* by the registries: of the servers, and of the second node; 0: nothing */
bool lane[10];       /* LANE(server, incarnation): it is there and open */
bool entry[10];
bool shard[5];       /* of an incarnation: the key's bits */
bool drawn[5];       /* that incarnation was drawn */
bool open_row, row, acknowledged;
bool denied;

#define GREATER(a, b) ((a) > (b) -> (a) : (b))
#define NAMED GREATER(named[home], named[2])

/* A reader's connection, made when the address had moved so often, breaks when it moves again. */
#ifdef READS_ON
#define IS_CONNECTED(at_) true
#else
#define IS_CONNECTED(at_) ((at_) == switches)
#endif

proctype address()
{
end:
    do
    :: atomic { switches < SWITCHES -> home = !home; switches++ }
    od
}

/* A registry's name only goes up; who finds a later one there gives up. */
inline name(at_)
{
    atomic {
        if
#ifndef NAMED_DOWN
        :: named[at_] > i -> goto given_up
#endif
        :: else -> named[at_] = i
        fi
    }
}

/* Its commands go wherever the address leads to by then, as a writer's do. */
proctype maker()
{
    byte i, seen;
    bool key;
    view[home] == 0 || view[home] < NAMED;
    seen = NAMED;
    atomic { /* a number that nobody else has */
#ifdef DRAWN_ANYHOW
        if
        :: !drawn[1] -> i = 1
        :: !drawn[3] -> i = 3
        :: !drawn[4] -> i = 4
        fi;
#else
        i = seen + 1;
        do
        :: i < 5 && drawn[i] -> i++
        :: else -> break
        od;
#endif
        i < 5;
        drawn[i] = true
    }
    /* What was replaced is deleted; the record names what will be made. */
    atomic { view[home] == 0 || view[home] < seen ->
        if
        :: view[home] != 0 -> lane[LANE(home, view[home])] = false
        :: else
        fi;
        if
        :: record[home] != 0 -> lane[LANE(home, record[home])] = false
        :: else
        fi;
        view[home] = 0;
        record[home] = i }
#ifndef NAMED_AFTER
    name(home);
#ifndef NAMED_AT_HOME
    name(2);
#endif
#endif
    lane[LANE(home, i)] = true;
    atomic { !open_row -> key = row };
    atomic {
        if
        :: view[home] == 0 && record[home] == i -> view[home] = i; record[home] = 0; shard[i] = key
        :: else -> i = 0
        fi
    }
#ifdef NAMED_AFTER
    i != 0;
    name(home);
    name(2)
#endif
given_up:
    skip
}

/* Whoever reads a view asks the registries behind that; @i_: the incarnation that is believed, 0: none is. */
inline look(i_)
{
#ifdef ASKED_BEFORE
    seen = NAMED;
    i_ = view[home];
#else
    i_ = view[home];
    seen = NAMED;
#endif
    atomic {
#ifndef NOT_ASKED
        if
        :: i_ < seen -> i_ = 0
        :: else
        fi;
#endif
        seen = 0
    }
}

proctype writer()
{
    byte i, seen;
    open_row = true;
    do
    :: look(i)
    :: atomic { i != 0 && lane[LANE(home, i)] -> entry[LANE(home, i)] = true; break }
    od;
    acknowledged = true;
    atomic { row = true; open_row = false }
}

proctype reader()
{
    byte i, seen, at;
end:
    do
    :: atomic { i = 0; at = switches }
       look(i)
    :: atomic { i != 0 && IS_CONNECTED(at) && row && acknowledged && lane[LANE(home, i)] ->
           denied = !(shard[i] || entry[LANE(home, i)]);
           assert(!denied) }
    od
}

init {
    atomic {
        view[0] = 2;
        drawn[2] = true;
        named[0] = 2;
        named[2] = 2;
        lane[LANE(0, 2)] = true;
        run address();
        run maker();
        run maker();
        run writer();
        run reader()
    }
}
