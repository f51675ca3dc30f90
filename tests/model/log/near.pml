/* SPDX-License-Identifier: MIT */
/* A build, its record and its cutover, while home goes back: the view is an older one by then, or that of another
 * server. The view lies on a node of its own; so do the lane, which fails over once to a replica that lags, and the
 * shards, which last. A writer adds one key, keeps it until it is folded, and answers roll calls. One folder; builders
 * that take over from each other, each of which may stop for any time. README.md says what is left out.
 *
 * denied: a process that loads what the view says calls the key absent after its add was acknowledged. */

#ifndef BUILDERS
#define BUILDERS 1
#endif
#ifndef FAILOVERS
#define FAILOVERS 1  /* of the lane */
#endif
#ifndef BACKS
#define BACKS 1      /* how often home goes back */
#endif
typedef state {
    bool cut;        /* the generation that was built is read */
    bool near;       /* the cutover is */
    bool folded;     /* the generation before has the key, by its position */
    bool folded_new; /* so has the one that was built */
    byte token;      /* who builds */
    byte era;        /* of the lane, as the view has accepted it */
    byte record;     /* of the build: the id of home that it was made under; 0: there is none */
    byte under;      /* and the lane's era then */
    bool read;       /* its position is behind the key's entry */
    bool degraded;   /* no key is called absent */
    bool removed;    /* no roll call waits for the writer any more */
};
state view, other, before; /* other: an earlier state, or that of the other server */
bool is_kept, named; /* named: the second master names the history of the other server */
byte id = 1, ids = 1, backs; /* id: home's replication id */
byte era = 1, failovers, said = 1;
bool in_lane, acknowledged, old, new; /* old, new: the generations' shards have the key */
byte header;         /* token in the headers of the shards that are built */
byte last_token;
bool denied;
bool gone;           /* the writer answers nothing any more */

#ifdef NEAR_STAYS
#define NEAR_ENDS skip
#else
#define NEAR_ENDS view.near = false
#endif

inline copy(to, from)
{
    to.cut = from.cut; to.near = from.near; to.folded = from.folded; to.folded_new = from.folded_new;
    to.token = from.token; to.era = from.era; to.record = from.record; to.under = from.under;
    to.read = from.read; to.degraded = from.degraded; to.removed = from.removed
}

inline clear(it)
{
    it.cut = false; it.near = false; it.folded = false; it.folded_new = false; it.token = 0; it.era = 0;
    it.record = 0; it.under = 0; it.read = false; it.degraded = false; it.removed = false
}

/* Whoever goes by a view of the other server has its history named first (history.pml). */
#ifdef TWO_SERVERS
#define GOES_BY_VIEW named = named || id == 2
#else
#define GOES_BY_VIEW skip
#endif
#if defined(TWO_SERVERS) && !defined(HISTORY_NOT_SAID)
#define MISSED (named && id == 1)
#else
#define MISSED false
#endif

proctype home()
{
end:
    do
#ifdef TWO_SERVERS
    :: d_step { !is_kept -> is_kept = true; copy(other, view) } /* the replica is left behind */
    :: d_step { is_kept && backs < BACKS -> backs++; id = 3 - id;
           clear(before); copy(before, view); copy(view, other); copy(other, before); clear(before) }
#else
    :: d_step { !is_kept && backs < BACKS -> is_kept = true; copy(other, view) }
    :: atomic { is_kept -> is_kept = false; backs++; copy(view, other); clear(other); ids++; id = ids }
#endif
    :: d_step { view.near && !view.cut -> view.near = false } /* the lane is too long */
    :: d_step { failovers < FAILOVERS && !in_lane -> failovers++; era++ }
    :: d_step { failovers < FAILOVERS && in_lane -> failovers++; era++; in_lane = false }
    :: d_step { failovers < FAILOVERS && in_lane -> failovers++; era++ }
    :: d_step { view.era != era && (said == era || view.removed) ->
           view.era = era; view.folded = false; view.folded_new = false }
    :: d_step { gone && !view.removed && view.era != era && said != era -> /* a roll call waits for the writer */
           view.removed = true; view.degraded = true; NEAR_ENDS }
    od
}

#ifdef NOT_NEAR
#define KEPT_FOR_BUILD false
#else
#define KEPT_FOR_BUILD view.near
#endif

proctype writer()
{
    bool keeps, will;
    atomic { view.era == era && !MISSED -> GOES_BY_VIEW; in_lane = true; acknowledged = true; keeps = true };
end:
    do
    :: atomic { keeps && !will && view.era == era && said == era && !MISSED && view.folded &&
               (view.cut -> view.folded_new : !(KEPT_FOR_BUILD)) -> GOES_BY_VIEW; will = true }
    :: atomic { will -> keeps = false; will = false }
#ifdef REMOVED
    :: atomic { gone = true; break }
#endif
    :: atomic { said != era ->
           if
           :: keeps -> in_lane = true
           :: else
           fi;
           said = era; will = false }
    od
}

/* Pages of whatever is read, or may be read again; then the positions. */
proctype folder()
{
    byte under;
    bool both;
end:
    do
    :: atomic { under == 0 && in_lane && view.era == era && !MISSED && (!view.folded || (view.cut && !view.folded_new)) ->
           GOES_BY_VIEW; under = era; both = view.cut; old = true;
           if
           :: both -> new = true
           :: else
           fi }
    :: atomic { under != 0 ->
           if
           :: view.era == under -> view.folded = true; view.folded_new = view.folded_new || (both && view.cut)
           :: else
           fi;
           under = 0; both = false }
    od
}

#ifdef CUT_AT_ANY_HOME
#define SAME_HOME true
#else
#define SAME_HOME (id == at)
#endif
#ifdef RECORD_OF_ANY_HOME
#define RECORD_COUNTS (view.record != 0)
#else
#define RECORD_COUNTS (view.record == at)
#endif
#ifdef HOME_NOT_NAMED
#define NAMES_HOME skip
#else
#define NAMES_HOME GOES_BY_VIEW
#endif
#ifdef NOT_NEAR
#define WAS_NEAR true
#elif defined(WITHDRAWN_UNSEEN)
#define WAS_NEAR near
#else
#define WAS_NEAR (near && view.near)
#endif

/* The one that draws the n-th token. */
proctype builder(byte n)
{
    byte at, token, under; /* at: home's id when it began; under: the lane's era */
    bool key, read, near;
    atomic { !view.cut && !MISSED -> at = id }
    atomic { !view.cut && last_token == n - 1 -> last_token++; token = last_token; view.token = token }
    atomic {
        if
        :: header < token -> header = token
        :: else -> goto ended
        fi
    }
    if
    :: atomic { view.token == token && RECORD_COUNTS && view.under == era && view.era == era ->
           read = view.read; under = era }
    :: atomic { view.token == token && !view.cut && !MISSED -> NAMES_HOME; view.record = 0; view.near = false };
       atomic { header == token -> new = false };
       /* S0, the settle, the rows: what was added before is in the table */
       atomic { view.token == token && view.era == era -> under = era; key = acknowledged || in_lane; read = in_lane }
    fi;
    do
    :: atomic { era == under -> key = key || (in_lane && !read); read = read || in_lane };
       atomic { header == token -> new = new || key };
       if
       :: atomic { !near && view.token == token && !view.cut -> view.record = at; view.under = under; view.read = read }
       :: atomic { view.cut || view.token != token || view.era != under || !(SAME_HOME) -> break }
       :: atomic { !view.cut && view.token == token && view.era == under && SAME_HOME && WAS_NEAR ->
              view.cut = true; view.folded_new = read; view.near = false; view.record = 0; view.degraded = false; break }
       :: atomic { !view.cut && view.token == token && view.era == under && SAME_HOME && !(WAS_NEAR) ->
              view.near = true; near = true }
       fi
    od;
ended:
    atomic { at = 0; token = 0; under = 0; key = false; read = false; near = false }
}

/* Whoever loads what the view says, at once: how it may be stale is fold.pml's. */
proctype reader()
{
    bool behind, has;
end:
    do
    :: d_step { acknowledged && view.era == era && !MISSED && !view.degraded ->
           behind = (view.cut -> view.folded_new : view.folded);
           has = (view.cut -> new : old) || (in_lane && !behind);
           denied = !has && !(behind && !in_lane); /* a position that is not in the lane is a gap */
           behind = false; has = false;
           assert(!denied) }
    od
}

init {
    byte i;
    atomic {
        view.era = 1;
        run home();
        run writer();
        run folder();
        do
        :: i < BUILDERS -> i++; run builder(i)
        :: else -> break
        od;
        i = 0;
        run reader()
    }
}
