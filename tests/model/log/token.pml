/* SPDX-License-Identifier: MIT */
/* Builders draw tokens, and make the shards of a generation under them, empty, while home goes back: the view, and
 * the counter of tokens beside it, are older ones by then. The shards lie on another node, which lasts. What a builder
 * sends when it has slept is executed whatever the view says by then. README.md says what is left out.
 *
 * denied: a process that loads the generation which was built, as the view says, misses a row that was there all the
 * time. */

#ifndef BUILDERS
#define BUILDERS 2
#endif
#ifndef BACKS
#define BACKS 1 /* how often home goes back */
#endif
typedef state {
    byte token;   /* who builds */
    byte counter; /* of tokens */
    bool cut;     /* the generation that was built is read */
};
state view, before;
bool is_kept;
byte id = 1, backs; /* id: home's replication id */
byte clock;         /* goes up with each token that is drawn */
byte header;        /* the token in the headers of the shards; 0: there are none */
bool has;          /* the shards have the row */
bool denied;

inline copy(to, from)
{
    to.token = from.token; to.counter = from.counter; to.cut = from.cut
}

#define LATER(a, b) (a > b -> a : b)
#ifdef COUNTED
#define NEXT LATER(view.counter + 1, least)
#else
#define NEXT LATER(LATER(view.counter + 1, least), clock + 1)
#endif

inline draw(least)
{
    token = NEXT; view.counter = token; view.token = token; clock = LATER(clock, token)
}

proctype home()
{
end:
    do
    :: d_step { !is_kept && backs < BACKS -> is_kept = true; copy(before, view) }
    :: d_step { is_kept -> is_kept = false; backs++; id++; copy(view, before); copy(before, view) }
    od
}

proctype builder()
{
    byte token, at; /* at: home's id when it began */
    atomic { !view.cut -> at = id; draw(1) }
    do
    :: atomic { header < token -> header = token; has = false; break }
    :: atomic { header >= token && view.token == token && !view.cut -> draw(header + 1) }
    :: atomic { header >= token && (view.token != token || view.cut) -> goto ended }
    od;
    atomic {
        if
        :: view.token == token && !view.cut
        :: else -> goto ended
        fi
    }
    atomic {
        if
        :: header == token -> has = true
        :: else -> goto ended
        fi
    }
    atomic {
        if
        :: view.token == token && !view.cut && id == at -> view.cut = true
        :: else
        fi
    }
ended:
    atomic { token = 0; at = 0 }
}

proctype reader()
{
end:
    do
    :: d_step { view.cut -> denied = !has; assert(!denied) }
    od
}

init {
    byte i;
    atomic {
        run home();
        do
        :: i < BUILDERS -> i++; run builder()
        :: else -> break
        od;
        i = 0;
        run reader()
    }
}
