/* SPDX-License-Identifier: MIT */
/* An expansion under coordinators and drivers that may stop between any two commands. One key, one shard a generation.
 * Each atomic step is one command or script of Redis, or one statement of Postgres; a process that is never scheduled
 * again is one that was killed or stopped. README.md names the code behind each part.
 *
 * Property: once the key's add is acknowledged and its row is committed, no check says "no"; and nobody ever takes a
 * shard for lost, as none is (not looked at with -DIGNORE_LOSS). A mutation (-D...) is a variant of the protocol that
 * loses the key. */

#ifndef FIRST
#define FIRST 1 /* expansions that the first driver wants */
#endif
#ifndef SECOND
#define SECOND 0 /* and the second, which else only finishes what the first left */
#endif
#ifndef EXPIRIES
#define EXPIRIES 1 /* of a lease before its owner gives it back */
#endif

#define TOKENS (FIRST + SECOND + 3)
#define GENERATIONS (FIRST + SECOND + 2)
#define EPOCHS (3 * (FIRST + SECOND) + 2)

/* --- Redis: shards --- */

#define NONE 0
#define SHARD 1     /* a string with its tag */
#define TOMBSTONE 2 /* another type */
#define ZOMBIE 3    /* a string without the tag: a BITFIELD on a missing key made it */

#ifdef NO_EPOCH_IN_NAMES
#define NAME(g, e) ((g) * EPOCHS)
#else
#define NAME(g, e) ((g) * EPOCHS + (e))
#endif
#define MADE(t, g) ((t) * GENERATIONS + (g))
#ifdef SHARED_UPLOAD_NAME
#define UPLOAD(t) 0
#else
#define UPLOAD(t) (t)
#endif

byte kind[GENERATIONS * EPOCHS]; /* under :e<epoch> */
bit has[GENERATIONS * EPOCHS];   /* the key's bits are set */
bit made[TOKENS * GENERATIONS];  /* under :n<token>, always empty */
byte upload[TOKENS];             /* 0: none, 1: without the key, 2: with it */
byte tombstone;                  /* what is seen of one: TOMBSTONE, or NONE where its time is over */

/* --- Redis: view, mutex, record --- */

#define STEADY 0
#define BUILDING 1
#define SWITCHED 2

typedef View {
    byte epoch;
    byte fenced;
    byte phase;
    byte current;   /* generation */
    byte alternate; /* 0: none */
    byte made_by;   /* token in the names of the alternate's new shards */
    byte retiring;  /* generation; 0: none */
    byte retiring_epoch;
    byte last;      /* generation number that was given out last */
}

View view;
byte mutex; /* token of the holder; 0: free */
byte tokens;
byte expiries;
byte record_generation;
bit record_scanned;

/* --- Postgres: the row of the key --- */

#define BEFORE 0
#define OPEN 1
#define COMMITTED 2
#define ROLLED_BACK 3
byte transaction;

bit acknowledged;

#define PROMISED (acknowledged && transaction == COMMITTED)

inline copy_view(to, from)
{
    to.epoch = from.epoch;
    to.fenced = from.fenced;
    to.phase = from.phase;
    to.current = from.current;
    to.alternate = from.alternate;
    to.made_by = from.made_by;
    to.retiring = from.retiring;
    to.retiring_epoch = from.retiring_epoch;
    to.last = from.last
}

/* HGETALL */
inline load()
{
    d_step { copy_view(v, view) }
}

/* rename.lua: shard of generation g to its name under epoch e, from the name before or from the one it was made under. */
inline rename_shard(g_, e_, from_made_, by_)
{
    atomic {
        if
        :: kind[NAME(g_, e_)] == TOMBSTONE || kind[NAME(g_, e_)] == SHARD -> skip
#ifdef RENAME_REFUSES_ZOMBIE
        :: kind[NAME(g_, e_)] == ZOMBIE -> skip
        :: kind[NAME(g_, e_)] == NONE ->
#else
        :: kind[NAME(g_, e_)] == NONE || kind[NAME(g_, e_)] == ZOMBIE ->
#endif
            if
            :: from_made_ && made[MADE(by_, g_)] ->
                made[MADE(by_, g_)] = 0;
                kind[NAME(g_, e_)] = SHARD;
                has[NAME(g_, e_)] = 0
            :: !from_made_ && kind[NAME(g_, e_ - 1)] == SHARD ->
                kind[NAME(g_, e_)] = SHARD;
                has[NAME(g_, e_)] = has[NAME(g_, e_ - 1)];
                has[NAME(g_, e_ - 1)] = 0;
                kind[NAME(g_, e_ - 1)] = tombstone
            :: else -> skip
            fi
        fi
    }
}

#ifdef CREATE_UNDER_EPOCH_NAME
#define FROM_MADE(v) false
#else
#define FROM_MADE(v) (v.phase == BUILDING)
#endif

/* --- coordinators --- */

/* help_fence(): under a view that may not be fenced the shard is renamed ahead of the command, if that can be sent. */
inline help(g_, from_made_)
{
    atomic {
        if
        :: v.fenced != v.epoch -> rename_shard(g_, v.epoch, from_made_, v.made_by)
        :: skip
        fi
    }
}

/* BITFIELD: seen is true where the reply shows the tag. */
inline write_bits(g_, e_, seen_)
{
    atomic {
        if
        :: kind[NAME(g_, e_)] == SHARD -> has[NAME(g_, e_)] = 1; seen_ = true
        :: kind[NAME(g_, e_)] == TOMBSTONE -> seen_ = false
        :: kind[NAME(g_, e_)] == NONE || kind[NAME(g_, e_)] == ZOMBIE ->
            kind[NAME(g_, e_)] = ZOMBIE;
            has[NAME(g_, e_)] = 1;
#ifdef TAG_NOT_CHECKED_ON_WRITE
            seen_ = true
#else
            seen_ = false
#endif
        fi
    }
}

/* The view again, after a reply without the tag. The same view, and fenced when the command was sent: loss. */
inline reload()
{
    atomic {
#ifndef IGNORE_LOSS
        assert(v.fenced != v.epoch || view.epoch != v.epoch);
#endif
        copy_view(v, view)
    }
}

inline add_key()
{
    do
    :: true ->
        alternate_seen = true;
        help(v.current, false);
        write_bits(v.current, v.epoch, current_seen);
        if
        :: v.phase != STEADY ->
            help(v.alternate, FROM_MADE(v));
            write_bits(v.alternate, v.epoch, alternate_seen)
        :: else -> skip
        fi;
#ifdef ACKNOWLEDGE_WITHOUT_LOOKING
        break;
#endif
        if
#ifdef ACKNOWLEDGE_CURRENT_ONLY
        :: current_seen -> break
        :: else -> reload()
#else
        :: current_seen && alternate_seen -> break
        :: else -> reload()
#endif
        fi
    od;
    atomic { acknowledged = 1; current_seen = false; alternate_seen = false }
}

/* A writer and the coordinator that it asks. */
proctype writer()
{
    View v;
    bool current_seen, alternate_seen;
    load(); /* as old as can be */
    if
#ifdef ADD_BEFORE_BEGIN
    :: add_key();
       transaction = OPEN;
       transaction = COMMITTED
#else
    :: transaction = OPEN; /* BEGIN, INSERT, BF.ADD, COMMIT */
       add_key();
       if
       :: transaction = COMMITTED
       :: transaction = ROLLED_BACK
       fi
    :: transaction = OPEN; /* BEGIN, INSERT, COMMIT, BF.ADD */
       transaction = COMMITTED;
       add_key()
#endif
    fi
}

/* A coordinator that is asked for the key after the promise was given. */
proctype checker()
{
    View v;
    load();
    PROMISED;
    do
    :: true ->
        help(v.current, false);
        atomic {
            if
            :: kind[NAME(v.current, v.epoch)] == SHARD ->
                assert(has[NAME(v.current, v.epoch)]);
                break
            :: else -> skip
            fi
        }
        reload()
    od
}

/* --- drivers --- */

#define HOLDS(t) (mutex == (t))

#ifdef CHANGE_UNCHECKED
#define MAY_CHANGE(v, t) true
#elif defined(CHANGE_BEFORE_FENCED)
#define MAY_CHANGE(v, t) (HOLDS(t) && view.epoch == v.epoch)
#else
#define MAY_CHANGE(v, t) (HOLDS(t) && view.epoch == v.epoch && view.fenced == view.epoch)
#endif

/* fence_complete() */
inline complete_fence()
{
    rename_shard(v.current, v.epoch, false, 0);
    atomic {
        if
        :: v.alternate != 0 -> rename_shard(v.alternate, v.epoch, FROM_MADE(v), v.made_by)
        :: else -> skip
        fi
    }
    atomic { /* fenced.lua */
        if
        :: view.epoch == v.epoch -> view.fenced = v.epoch; v.fenced = v.epoch
        :: else -> goto stopped
        fi
    }
}

/* fence_retire(): tombstone.lua, retired.lua */
inline retire()
{
    if
    :: v.retiring != 0 ->
        atomic {
            has[NAME(v.retiring, v.retiring_epoch)] = 0;
            kind[NAME(v.retiring, v.retiring_epoch)] = tombstone
        }
        atomic {
            if
            :: HOLDS(token) && view.retiring_epoch == v.retiring_epoch ->
                view.retiring = 0;
                view.retiring_epoch = 0;
                v.retiring = 0;
                v.retiring_epoch = 0
            :: else -> goto stopped
            fi
        }
    :: else -> skip
    fi
}

/* leave_alternate(): the alternate generation leaves the view, its shards lie under the present epoch. */
inline leave()
{
    atomic {
        if
        :: MAY_CHANGE(v, token) ->
            v.retiring = v.alternate;
            v.retiring_epoch = v.epoch;
            v.alternate = 0;
            v.made_by = 0;
            v.phase = STEADY;
            v.epoch++;
            copy_view(view, v)
        :: else -> goto stopped
        fi
    }
    complete_fence();
    retire()
}

proctype driver(byte left)
{
    View v;
    byte token;
    bit row, page;
    bool waits;
again:
    atomic { /* acquire.lua */
        mutex == 0 && tokens < TOKENS - 1;
        tokens++;
        mutex = tokens;
        token = tokens
    }
    load();
#ifndef CHANGE_BEFORE_FENCED
    complete_fence();
#endif
    retire();
    if /* step_resume() */
    :: v.phase == SWITCHED -> goto finish
    :: v.phase == BUILDING -> goto resume
    :: v.phase == STEADY && left > 0 -> left--
    :: v.phase == STEADY && left == 0 -> goto done
    fi;

    /* create: fence_create() */
#ifdef CREATE_UNDER_EPOCH_NAME
    atomic {
        kind[NAME(v.last + 1, v.epoch + 1)] = SHARD;
        has[NAME(v.last + 1, v.epoch + 1)] = 0
    }
#else
    made[MADE(token, v.last + 1)] = 1;
#endif

    /* open: change.lua resets the record */
    atomic {
        if
        :: MAY_CHANGE(v, token) ->
            v.phase = BUILDING;
            v.last++;
            v.alternate = v.last;
            v.made_by = token;
            v.epoch++;
            copy_view(view, v);
#ifndef RECORD_NOT_RESET
            record_generation = v.alternate;
            record_scanned = 0
#endif
        :: else -> goto stopped
        fi
    }
#ifndef SCAN_BEFORE_FENCE
    complete_fence();
#endif

resume:
#ifdef RECORD_NOT_RESET
    if
    :: record_scanned -> goto scanned
    :: else -> skip
    fi;
#else
    if
    :: record_generation == v.alternate && record_scanned -> goto scanned
    :: else -> skip
    fi;
#endif

    /* settle: the transactions that are open now must have ended */
#ifndef NO_SETTLE
    waits = transaction == OPEN;
    !waits || transaction != OPEN;
    waits = false;
#endif

    /* scan: read, upload, checkpoint */
    row = transaction == COMMITTED;
#ifdef CHECKPOINT_BEFORE_FLUSH
    atomic {
        if
        :: HOLDS(token) -> record_generation = v.alternate; record_scanned = 1
        :: else -> goto stopped
        fi
    }
#endif
    upload[UPLOAD(token)] = 1; /* a page before the one with the key */
or:
    atomic { /* upload.lua */
        if
#ifdef OR_WITHOUT_LOOKING
        :: kind[NAME(v.alternate, v.epoch)] == NONE ->
            kind[NAME(v.alternate, v.epoch)] = SHARD; /* the uploaded bytes hold the tag */
            has[NAME(v.alternate, v.epoch)] = upload[UPLOAD(token)] == 2
#endif
        :: kind[NAME(v.alternate, v.epoch)] == SHARD && upload[UPLOAD(token)] != 0 ->
            if
            :: upload[UPLOAD(token)] == 2 -> has[NAME(v.alternate, v.epoch)] = 1
            :: else -> skip
            fi
        :: else -> goto stopped
        fi;
        upload[UPLOAD(token)] = 0
    }
    atomic {
        if
        :: !page -> page = 1; upload[UPLOAD(token)] = 1 + row; row = 0; goto or
        :: else -> page = 0
        fi
    }
#ifdef SCAN_BEFORE_FENCE
    complete_fence();
#endif
#ifndef CHECKPOINT_BEFORE_FLUSH
    atomic { /* job.lua */
        if
        :: HOLDS(token) -> record_generation = v.alternate; record_scanned = 1
        :: else -> goto stopped
        fi
    }
#endif

scanned:
    if /* an operator may abort */
    :: leave(); goto done
    :: skip
    fi;

    /* cutover */
    atomic {
        if
        :: MAY_CHANGE(v, token) ->
            v.phase = SWITCHED;
            v.made_by = v.current; /* the slots change places */
            v.current = v.alternate;
            v.alternate = v.made_by;
            v.made_by = 0;
            v.epoch++;
            copy_view(view, v)
        :: else -> goto stopped
        fi
    }
    complete_fence();

finish:
    leave();

done:
    atomic {
        if
        :: mutex == token -> mutex = 0 /* release.lua */
        :: else -> skip
        fi;
        if
        :: left > 0 -> goto again
        :: else -> goto over
        fi
    }
stopped:
    skip;
over:
    token = 0
}

/* The lease of whoever holds the mutex runs out: it died, or it sleeps. */
proctype lease()
{
    do
    :: atomic { mutex != 0 && expiries < EXPIRIES -> mutex = 0; expiries++ }
    od
}

init {
    atomic {
        if
        :: tombstone = TOMBSTONE
        :: tombstone = NONE
        fi;
        view.epoch = 1;
        view.fenced = 1;
        view.current = 1;
        view.last = 1;
        kind[NAME(1, 1)] = SHARD;
        run writer();
        run checker();
        run driver(FIRST);
        run driver(SECOND);
        run lease()
    }
}
