/* SPDX-License-Identifier: MIT */
/* Home goes back behind a cutover, and a build that its view has is begun again, while a reader reads the generation
 * block by block. Lanes and shards lie on a node that lasts; a second master has a registry that stays. The key was
 * there all the time, and each build has it. A reader checks the token in a shard's header once for each view. Each may
 * sleep between any two commands. README.md says what is left out. With ROLLS an operator rolls back, and then the
 * generation loses a shard: it may not be read again, so its build begins again, too.
 *
 * denied: the reader finds that a block of the generation which is read by its view lacks the key. */

#ifndef BUILDERS
#define BUILDERS 2
#endif
#ifndef BACKS
#define BACKS 1 /* how often home goes back */
#endif
#define BIT(n) (1 << (n))
typedef state {
    byte number; /* of the generation that is built, or was; 0: none was begun */
    byte token;  /* who builds it */
    bool cut;    /* it is read */
    byte known;  /* histories, as bits */
    byte latest; /* the last of them; 0: there is none */
};
state view, before;
bool is_kept;
byte id = 1;           /* home's replication id */
byte backs, clock, drawn;
byte named;            /* the second master's registry */
byte header[4];        /* of the shards of each number: the token; 0: there are none */
bool has[4];           /* they have the key */
bool denied;

inline copy(to, from)
{
    to.number = from.number; to.token = from.token; to.cut = from.cut; to.known = from.known; to.latest = from.latest
}

inline note_drawn()
{
    drawn++; view.known = view.known | BIT(drawn); view.latest = drawn
}

proctype home()
{
end:
    do
    :: d_step { !is_kept && backs < BACKS -> is_kept = true; copy(before, view) }
    :: d_step { is_kept -> is_kept = false; backs++; id++; copy(view, before); copy(before, view) }
    od
}

#define LACKS(h) ((h) != 0 && (BIT(h) & known) == 0)

proctype builder()
{
    byte number, token, at, known;
    atomic { !view.cut -> at = id;
        if
        :: view.number == 0 -> view.number = 1
        :: else
        fi;
        number = view.number; clock++; token = clock; view.token = token }
    atomic { known = view.known }
#ifndef NOT_ASKED
    atomic {
        if
        :: LACKS(named) -> goto ended
        :: else
        fi
    }
#endif
    atomic { /* the lanes are held */
        if
        :: view.number == number && view.token == token && !view.cut
        :: else -> goto ended
        fi
    }
    atomic {
        if
        :: header[number] < token -> header[number] = token; has[number] = false
        :: else -> goto ended
        fi
    }
    atomic {
        if
        :: header[number] == token -> has[number] = true
        :: else -> goto ended
        fi
    }
    atomic {
        if
        :: view.number == number && view.token == token && !view.cut && id == at -> view.cut = true;
#ifndef CUTOVER_NOT_SAID
           note_drawn()
#endif
        :: else
        fi
    }
ended:
    atomic { number = 0; token = 0; at = 0; known = 0 }
}

/* Whoever notices that the view is an older one. */
proctype control()
{
    byte known;
end:
    do
    :: atomic { known = view.known }
       atomic {
           if
           :: LACKS(named) && (BIT(named) & view.known) == 0 ->
              view.known = view.known | BIT(named); note_drawn(); view.token = 0;
#ifndef NUMBER_KEPT
              if
              :: !view.cut && view.number < 3 -> view.number = (view.number == 0 -> 2 : view.number + 1)
              :: else
              fi
#endif
           :: else
           fi;
           known = 0
       }
    od
}

#ifdef ROLLS
proctype operator()
{
    atomic { view.cut -> view.cut = false; view.token = 0;
#ifndef NUMBER_KEPT
        view.number++
#endif
    }
}
#endif

proctype reader()
{
    byte known, latest, number, token;
    bool cut, good;
end:
    do
    :: atomic { known = view.known; latest = view.latest; number = view.number; token = view.token; cut = view.cut }
       atomic {
           good = !LACKS(named);
           if
           :: good && named != latest -> named = latest;
#ifndef GOES_ON_NAMED
              good = false
#endif
           :: else
           fi;
           known = 0; latest = 0
       }
       if
       :: atomic { good && cut && header[number] <= token -> skip }
          do
          :: atomic { denied = !has[number]; assert(!denied) }
          :: break
          od
       :: true
       fi;
       atomic { number = 0; token = 0; cut = false; good = false }
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
        run control();
#ifdef ROLLS
        run operator();
#endif
        run reader()
    }
}
