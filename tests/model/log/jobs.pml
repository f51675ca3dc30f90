/* SPDX-License-Identifier: MIT */
/* Drivers of a filter's jobs, one behind the other, as each has the mutex. A driver may stop between any two commands
 * for any time; then its mutex ends, another driver takes it, goes on by what the view says, and begins other jobs.
 * Rows come without an add, so only a build finds them; a rollback that an operator asks for takes back what the build
 * has found. What a driver sends to switch back may be executed twice, the second time at any later time: the
 * connection broke, and the driver sent it again. With HOME_BACK the view goes back once while a job is under way.
 * README.md says what is left out.
 *
 * undone: the generation that is read lacks rows that a cutover has brought, and nobody asked for a rollback; with
 * HOME_BACK: a job ends as done without them.
 * dropped: a generation leaves the view that the driver with the mutex builds, by another driver.
 * unasked: a generation is entered for a job that was said to have ended. */

#define NOBODY 0
#ifndef DRIVERS
#define DRIVERS 3
#endif
#ifndef ASKS
#define ASKS 2
#endif
#ifndef LAST
#define LAST 4 /* the highest number of a generation */
#endif
typedef state {
    byte slot[2];  /* number of each generation; 0: none */
    bool built[2];
    byte token[2]; /* who writes it */
    bit current;
    byte last;     /* the highest number so far */
  byte version;  /* grows with every change */
};
state view, before;
bool is_kept;
byte id;                  /* home's replication id */
byte mutex, turns, ended; /* who has it; how often it was taken; the last job that was said to have ended */
byte running;             /* in the record: the driver that began the job; 0: it has ended */
bool back;                /* in the record: an operator asks for a rollback */
byte wish;                /* an operator's request for a rollback that is on its way: the job that the operator saw */
byte rows[LAST + 1];      /* how many rows each generation has */
byte committed = 1, promised;
byte asked; /* how often an operator has asked for a rollback */
byte late, late_of, late_version; /* a request to switch back that is executed once more: generation, mutex, version */
bool sent_twice;
bool undone, dropped, unasked;

#ifdef SWITCHED_BY_ANYBODY
#define MAY_SWITCH true
#else
#define MAY_SWITCH (mutex == me)
#endif
#ifdef SWITCHED_IN_ANY_VERSION
#define IS_AS_SEEN(v) true
#else
#define IS_AS_SEEN(v) (view.version == v)
#endif
#ifdef DROPPED_BY_ANYBODY
#define MAY_DROP true
#else
#define MAY_DROP (mutex == me)
#endif
#ifdef ENTERED_BY_ANYBODY
#define MAY_ENTER true
#else
#define MAY_ENTER (mutex == me)
#endif
#ifdef ANY_VIEW
#define WENT_BACK false
#else
#define WENT_BACK (view.slot[view.current] < known)
#endif
#ifdef HOME_BACK
#define PROMISED_BY_CUTOVER false
#else
#define PROMISED_BY_CUTOVER true
#endif
#ifdef ASKED_OF_ANY_JOB
#define IS_ASKED true
#else
#define IS_ASKED (wish == running)
#endif
#ifdef REQUEST_KEPT
#define TAKE_BACK_REQUEST skip
#else
#define TAKE_BACK_REQUEST back = false
#endif

inline look() /* known: the generation that was read at the last look */
{
    if
    :: WENT_BACK -> goto out
    :: else
    fi;
    known = view.slot[view.current]; version = view.version; s = 1 - view.current; n = view.slot[s]
}

inline promise(g)
{
    if
    :: rows[g] > promised -> promised = rows[g]
    :: else
    fi
}

inline read_now(to)
{
    view.current = to; view.version++;
    if
    :: PROMISED_BY_CUTOVER && view.slot[to] > view.slot[1 - to] -> promise(view.slot[to])
    :: else
    fi;
    undone = rows[view.slot[to]] < promised;
    assert(!undone)
}

inline copy(to, from)
{
    to.slot[0] = from.slot[0]; to.slot[1] = from.slot[1];
    to.built[0] = from.built[0]; to.built[1] = from.built[1];
    to.token[0] = from.token[0]; to.token[1] = from.token[1];
    to.current = from.current; to.last = from.last;
    to.version = from.version
}

#ifdef HOME_BACK
proctype home()
{
    d_step { running != 0 -> is_kept = true; copy(before, view) }
    d_step { is_kept -> is_kept = false; id++; copy(view, before) }
}
#endif

proctype others()
{
end:
    do
    :: atomic { mutex != NOBODY && turns < DRIVERS -> mutex = NOBODY } /* it has expired */
    :: atomic { committed < 2 -> committed++ }
#ifndef HOME_BACK
    :: atomic { asked < ASKS && wish == 0 && running != 0 -> wish = running; asked++ }
    :: atomic { wish != 0 ->
           if
           :: IS_ASKED && view.slot[1 - view.current] != 0 && view.slot[1 - view.current] < view.slot[view.current] ->
               back = true;
               if
               :: wish == running && rows[view.slot[1 - view.current]] < promised ->
                   promised = rows[view.slot[1 - view.current]]
               :: else
               fi
           :: else
           fi;
           wish = 0 }
#endif
    od
}

#ifndef HOME_BACK
proctype connection()
{
end:
    atomic { late != 0 ->
        if
        :: late_of == mutex && view.slot[late % 2] == late && view.built[late % 2] && IS_AS_SEEN(late_version) ->
            read_now(late % 2)
        :: else
        fi;
        late = 0; late_of = 0; late_version = 0
    }
}
#endif

proctype driver()
{
    byte me, n, seen, at, cut, known, version;
    bit s;
    bool aborts;
    atomic { mutex == NOBODY -> turns++; me = turns; mutex = me;
        look();
        if
        :: n == 0 && running != 0 -> ended = running; running = 0; back = false
        :: n != 0 && view.built[s] && n > view.slot[view.current] && back -> TAKE_BACK_REQUEST
        :: else
        fi
    }
again:
    atomic { look();
        if
        :: aborts -> goto leave
        :: n == 0 && cut != 0 -> goto done
        :: n == 0 && cut == 0 -> goto open
        :: n > view.slot[view.current] && !view.built[s] -> goto build
        :: n > view.slot[view.current] && view.built[s] -> goto hold
        :: n != 0 && n < view.slot[view.current] -> cut = view.slot[view.current]; goto grace
        fi
    }
open:
    atomic {
        if
        :: mutex == me && view.last + 2 <= LAST ->
            running = me; n = view.last + 1; n = (n % 2 == view.current -> n + 1 : n)
        :: else -> goto out
        fi
    }
    atomic { /* build_begin.lua */
        if
        :: MAY_ENTER && view.slot[n % 2] == 0 && view.last < n && n % 2 != view.current ->
            unasked = (me <= ended);
            assert(!unasked);
            view.slot[n % 2] = n; view.last = n; view.version++; view.built[n % 2] = false; view.token[n % 2] = me
        :: else -> goto out
        fi
    }
    goto again;
build:
    atomic {
        if
        :: view.slot[s] == n && !view.built[s] -> view.token[s] = me; at = id
        :: else -> goto out
        fi
    }
    seen = committed;
    atomic { /* build_cutover.lua */
        if
        :: view.slot[s] == n && view.token[s] == me && !view.built[s] && id == at ->
            rows[n] = seen; view.built[s] = true; read_now(s)
        :: else -> goto out
        fi
    }
    goto again;
hold: /* it was read before a rollback */
    if
    :: aborts = true; goto leave
    :: true
    fi;
    atomic { look();
        if
        :: n > view.slot[view.current] && view.built[s]
        :: else -> goto out
        fi
    }
    atomic { /* grace_switch.lua */
        if
        :: MAY_SWITCH && view.slot[s] == n && view.built[s] && IS_AS_SEEN(version) -> read_now(s)
        :: mutex == me && !IS_AS_SEEN(version) -> goto again
        :: else -> goto out
        fi
    }
    goto again;
grace:
    if
    :: back -> goto rollback
    :: true -> goto leave
    fi;
rollback:
    atomic { known = 0; look();
        if
        :: n == 0 || n > view.slot[view.current] -> goto written
        :: else
        fi
    }
    atomic { /* grace_switch.lua */
        if
        :: MAY_SWITCH && view.slot[s] == n && view.built[s] && IS_AS_SEEN(version) ->
            if
            :: !sent_twice -> sent_twice = true; late = n; late_of = me; late_version = version
            :: true
            fi;
            known = 0; read_now(s)
        :: mutex == me && !IS_AS_SEEN(version) -> goto again
        :: else -> goto out
        fi
    }
written:
    atomic {
        if
        :: mutex == me -> back = false; cut = 0
        :: else -> goto out
        fi
    }
    goto hold;
leave: /* finish or abort */
    atomic { look();
        if
        :: n == 0 -> goto done
        :: n != 0 && back && !aborts -> goto rollback
        :: else
        fi
    }
    atomic { /* grace_forget.lua */
        if
        :: MAY_DROP && view.slot[s] == n && view.current != s ->
            dropped = (mutex != NOBODY && mutex != me && view.token[s] == mutex);
            assert(!dropped);
            view.slot[s] = 0; view.version++; is_kept = false
        :: else -> goto out
        fi
    }
done:
    atomic {
        if
        :: mutex == me ->
            running = 0; back = false;
            if
            :: !aborts && cut != 0 -> promise(cut); undone = rows[view.slot[view.current]] < promised; assert(!undone)
            :: else
            fi
        :: else
        fi
    }
out:
    atomic {
        if
        :: mutex == me -> mutex = NOBODY
        :: else
        fi;
        me = 0; n = 0; seen = 0; at = 0; cut = 0; known = 0; version = 0; s = 0; aborts = false
    }
}

init {
    byte i;
    atomic {
        view.slot[1] = 1;
        view.built[1] = true;
        view.current = 1;
        view.last = 1;
        do
        :: i < DRIVERS -> i++; run driver()
        :: else -> break
        od;
        i = 0;
#ifdef HOME_BACK
        run home();
#else
        run connection();
#endif
        run others()
    }
}
