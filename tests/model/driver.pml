/* SPDX-License-Identifier: MIT */
/* Drivers: whoever has taken the mutex and works on the view. Each may stop between any two commands, for ever or for any
 * time. */

/* --- what a driver remembers, and what is wanted of it --- */

byte view_of[2]; /* as it was loaded; 0: not yet, or not at work */
byte token_of[2];
byte stage_of[2];
byte row_of[2];
byte into_of[2];     /* layer that the scanned row goes to */
bit complete_of[2];  /* the fence of its view */
#define w view_of[me]
#define token token_of[me]
#define stage stage_of[me]
#define row row_of[me]
#define into into_of[me]
#define complete complete_of[me]

/* The row as the scan saw it. */
#define UNREAD 0
#define MISSING 1
#define READ 2
#define UPLOADED 3

byte builds = BUILDS;
byte current_grows = CURRENT_GROWS;
byte other_grows = OTHER_GROWS;
byte rollbacks = ROLLBACKS;
#ifdef LOSE_SHARD
#define IS_GONE(v) (!IS_SHARD(shard[NAME(views[v].current, 0, 0, EPOCH(v))]))
#else
#define IS_GONE(v) true /* cut behind the key's block */
#endif
#define MAY_REFILL(v) (views[v].phase == STEADY && refills < REFILLS && IS_GONE(v))
#define IS_WANTED (builds > 0 || (BUILDS == 0 && current_grows > 0))
#define IS_WORK                                                                                                       \
    (now != 0 && (!IS_FENCED(now) || retiring != 0 || views[now].phase != STEADY || views[now].opening || IS_WANTED || \
                  views[now].unsure != 0 || MAY_REFILL(now)))

/* --- what the scripts refuse --- */

#define HOLDS(t) (mutex == (t))
#ifdef CHANGE_BEFORE_FENCED
#define FENCE_ALLOWS(v) true
#else
#define FENCE_ALLOWS(v) IS_FENCED(v)
#endif
#if defined(CHANGE_UNCHECKED) || defined(NO_TOKEN_ON_VIEW)
#define TOKEN_ALLOWS(t) true
#else
#define TOKEN_ALLOWS(t) HOLDS(t)
#endif
#if defined(CHANGE_UNCHECKED) || defined(EPOCH_NOT_COMPARED)
#define EPOCH_ALLOWS(v) (now != 0)
#else
#define EPOCH_ALLOWS(v) (now == (v))
#endif
#define MAY_CHANGE(v, t) (TOKEN_ALLOWS(t) && EPOCH_ALLOWS(v) && FENCE_ALLOWS(v)) /* change.lua */
#ifdef NO_TOKEN_ON_JOB
#define MAY_RECORD(t) true
#else
#define MAY_RECORD(t) HOLDS(t) /* job.lua */
#endif

/* --- the steps' conditions --- */

/* The generation that the job builds or has built, and how far it came. */
#define BUILT(v) (views[v].phase == SWITCHED -> views[v].current : views[v].other)
#ifdef RECORD_NOT_RESET
#define RECORDED(v) record_stage
#else
#define RECORDED(v) (record_generation == BUILT(v) -> record_stage : UNSETTLED)
#endif

/* What is done first under the mutex: fence, reclaim, and the second half of a new layer. */
#ifdef OPENING_IGNORED
#define IS_OPENING false
#else
#define IS_OPENING (views[w].opening != 0)
#endif
#ifdef CHANGE_BEFORE_FENCED
#define IS_READY (w != 0)
#else
#define IS_READY (complete && (retiring == 0 || retiring > w) && !IS_OPENING)
#endif
#define IS_STEADY (IS_READY && views[w].phase == STEADY)
#define IS_BUILDING (IS_READY && views[w].phase == BUILDING)
#define IS_SWITCHED (IS_READY && views[w].phase == SWITCHED)
#ifdef SCAN_BEFORE_FENCED
#define MAY_SCAN (w != 0 && views[w].phase == BUILDING)
#else
#define MAY_SCAN IS_BUILDING
#endif
#ifdef FILL_BEFORE_FENCED
#define MAY_FILL (w != 0 && views[w].phase == STEADY && views[w].unsure != 0)
#else
#define MAY_FILL (IS_STEADY && views[w].unsure != 0)
#endif
#ifdef NO_SETTLE
#define IS_SETTLED true
#else
#define IS_SETTLED (transaction != OPEN) /* what was open at one moment has ended */
#endif
#ifdef FENCED_TOO_EARLY
#define FENCE_IS_DONE(v) true
#else
#define FENCE_IS_DONE(v) (ALL_RENAMED(v) && IS_GATHERED(v))
#endif
#ifdef BEGINS_BEHIND
#define MAY_BEGIN_JOB true
#else
#define MAY_BEGIN_JOB !IS_BEHIND /* fence_may_begin() */
#endif
#ifdef GROW_IN_ONE_STEP
#define OPENS 0
#else
#define OPENS 1
#endif

/* What lies under .t<token>: 0 nothing, 1 bits of other keys, 2 of the key too. */
#ifdef SHARED_UPLOAD_NAME
#define UPLOAD(t) 0
#else
#define UPLOAD(t) (t)
#endif
byte uploads[TOKENS];

#ifdef REDUCED
#define PRIVATE atomic { /* between these nobody sees a difference */
#define END }
#else
#define PRIVATE
#define END
#endif

inline forget(who_)
{
    view_of[who_] = 0;
    token_of[who_] = 0;
    stage_of[who_] = UNSETTLED;
    row_of[who_] = UNREAD;
    into_of[who_] = 0;
    complete_of[who_] = 0
}

/* A driver that was refused gives back what it may still hold. */
inline stop()
{
    if
    :: HOLDS(token) -> mutex = 0
    :: else -> skip
    fi;
    forget(me)
}

/* change.lua: the view that replaces w begins as a copy of it, FIELDS are what is new in it. */
inline begin_change()
{
    latest++;
    assert(latest < VIEWS);
    views[latest].epoch = views[w].epoch + 1;
    views[latest].phase = views[w].phase;
    views[latest].current = views[w].current;
    views[latest].other = views[w].other;
    views[latest].layers = views[w].layers;
    views[latest].other_layers = views[w].other_layers;
    views[latest].opening = views[w].opening;
    views[latest].other_opening = views[w].other_opening;
    views[latest].last = views[w].last;
    views[latest].unsure = views[w].unsure;
    w = latest;
    now = w;
    complete = 0;
#ifdef REDUCED
    forget(1 - me) /* a driver of an older view: everything is refused, or adds bits to what is read */
#endif
}

#define CHANGE(FIELDS)                                                                                                \
    atomic {                                                                                                          \
        if                                                                                                            \
        :: MAY_CHANGE(w, token) -> begin_change(); FIELDS                                                             \
        :: else -> stop()                                                                                         \
        fi                                                                                                            \
    }

#ifdef RECORD_NOT_RESET
#define RESET_RECORD skip
#else
#define RESET_RECORD                                                                                                  \
    record_generation = 0;                                                                                            \
    record_stage = UNSETTLED;                                                                                         \
    stage = UNSETTLED;                                                                                                \
    row = UNREAD
#endif

/* The alternate generation leaves the view. */
#define LEAVE                                                                                                         \
    views[w].left = views[w].other;                                                                                   \
    views[w].left_layers = views[w].other_layers;                                                                     \
    views[w].other = 0;                                                                                               \
    views[w].other_layers = 0;                                                                                        \
    views[w].other_opening = 0;                                                                                       \
    views[w].phase = STEADY;                                                                                          \
    retiring = w;                                                                                                     \
    stage = UNSETTLED;                                                                                                \
    row = UNREAD

/* The slots change places. */
#define EXCHANGE                                                                                                      \
    swap = views[w].current;                                                                                          \
    views[w].current = views[w].other;                                                                                \
    views[w].other = swap;                                                                                            \
    swap = views[w].layers;                                                                                           \
    views[w].layers = views[w].other_layers;                                                                          \
    views[w].other_layers = swap;                                                                                     \
    swap = views[w].opening;                                                                                          \
    views[w].opening = views[w].other_opening;                                                                        \
    views[w].other_opening = swap;                                                                                    \
    swap = 0

/* job.lua */
#define RECORD(STAGE)                                                                                                 \
    atomic {                                                                                                          \
        if                                                                                                            \
        :: MAY_RECORD(token) ->                                                                                       \
            record_generation = views[w].other;                                                                       \
            record_stage = STAGE;                                                                                     \
            stage = STAGE                                                                                             \
        :: else -> stop()                                                                                         \
        fi                                                                                                            \
    }

inline make_layer(g_, l_)
{
    made[MADE(token, 0)] = LAYER(g_, l_);
#if SHARDS > 1
    made[MADE(token, 1)] = LAYER(g_, l_)
#endif
}

/* upload.lua; the row is then as then_ says. */
inline or_upload(name_, then_)
{
    if
#ifdef OR_WITHOUT_LOOKING
    :: shard[name_] == NONE || shard[name_] == ZOMBIE ->
        shard[name_] = (uploads[UPLOAD(token)] == 2 -> FULL : EMPTY); /* the uploaded bytes hold the tag */
        uploads[UPLOAD(token)] = 0;
        row = then_
#endif
    :: IS_SHARD(shard[name_]) && uploads[UPLOAD(token)] != 0 ->
        if
        :: uploads[UPLOAD(token)] == 2 -> shard[name_] = FULL
        :: else -> skip
        fi;
        uploads[UPLOAD(token)] = 0;
        row = then_
    :: else ->
        uploads[UPLOAD(token)] = 0;
#ifdef REFUSED_UPLOAD_IGNORED
        row = then_
#else
        stop()
#endif
    fi
}

/* fence_add() of a committed row. */
inline add_row(name_)
{
    if
    :: IS_SHARD(shard[name_]) -> shard[name_] = FULL
    :: else -> skip
    fi
}

proctype driver(bit me)
{
    byte swap;
    do
    :: atomic { /* acquire.lua, fence_load(), record_read() */
           token == 0 && mutex == 0 && tokens >= me && tokens < TOKENS - 1 && IS_WORK && MAY_BEGIN_JOB ->
           tokens++;
           token = tokens;
           mutex = token;
#ifdef REDUCED
           w = now;
           stage = RECORDED(w)
       }
#else
       }
    :: atomic { token != 0 && w == 0 && now != 0 -> w = now; stage = RECORDED(w) }
#endif

    :: atomic { /* fenced.lua */
           w != 0 && !complete && FENCE_IS_DONE(w) ->
           if
           :: IS_PRESENT(w) -> fenced = EPOCH(w); complete = 1
           :: else -> stop()
           fi
       }
    :: atomic { /* retired.lua */
           complete && retiring != 0 && retiring <= w && ALL_RETIRED(retiring) ->
           if
           :: HOLDS(token) -> retiring = 0
           :: else -> stop()
           fi
       }

    /* layer_grow() */
    :: PRIVATE
           IS_READY && current_grows > 0 && views[w].layers < LAYERS ->
           make_layer(views[w].current, views[w].layers);
           CHANGE(
               views[w].layers++;
               views[w].opening = OPENS;
               views[w].born = views[w].current;
               views[w].made_by = token;
               current_grows--
           )
       END
    :: atomic { complete && views[w].opening -> CHANGE(views[w].opening = 0) }
    :: PRIVATE
           IS_BUILDING && other_grows > 0 && views[w].other_layers < LAYERS ->
           make_layer(views[w].other, views[w].other_layers);
           CHANGE(
               views[w].other_layers++;
               views[w].born = views[w].other;
               views[w].made_by = token;
               other_grows--
           )
       END

    /* driver_create(), driver_open() */
    :: PRIVATE
           IS_STEADY && IS_WANTED && builds > 0 ->
#ifdef CREATE_UNDER_EPOCH_NAME
           shard[NAME(views[w].last + 1, 0, 0, EPOCH(w) + 1)] = EMPTY;
#else
           make_layer(views[w].last + 1, 0);
#endif
           CHANGE(
               views[w].phase = BUILDING;
               views[w].last++;
               views[w].other = views[w].last;
               views[w].other_layers = 1;
               views[w].born = views[w].other;
               views[w].made_by = token;
               builds--;
               RESET_RECORD
           )
       END

#if REFILLS > 0
    /* driver_refill(): give_up_lost() */
    :: PRIVATE
           atomic { IS_STEADY && MAY_REFILL(w) && views[w].layers == 1 -> refills++; swap = refills };
#ifdef ANEW_UNDER_EPOCH_NAME
           shard[NAME(views[w].current, 0, 0, EPOCH(w) + 1)] = EMPTY;
#else
           made_anew[swap] = 1;
#endif
           CHANGE(views[w].unsure = views[w].current; views[w].anew = swap; stage = UNSETTLED; row = UNREAD);
           swap = 0
       END
    /* read_all(), look_again(), fence_sure() */
    :: atomic {
           MAY_FILL && stage == UNSETTLED &&
#ifndef FILL_WITHOUT_SETTLE
           IS_SETTLED &&
#endif
           row == UNREAD ->
           stage = SETTLED
       }
    :: atomic { MAY_FILL && stage == SETTLED && row == UNREAD -> row = (transaction == COMMITTED -> READ : MISSING) }
    :: atomic {
           MAY_FILL && stage == SETTLED && (row == MISSING || row == READ) ->
           if
           :: IS_SHARD(shard[NAME(views[w].current, 0, 0, EPOCH(w))]) ->
               if
               :: row == READ -> shard[NAME(views[w].current, 0, 0, EPOCH(w))] = FULL
               :: else -> skip
               fi;
               row = UPLOADED
           :: else -> row = UNREAD; stage = UNSETTLED
           fi
       }
    :: atomic { /* sure.lua */
           MAY_FILL && row == UPLOADED ->
           if
           :: HOLDS(token) && now == w && IS_FENCED(w) -> views[w].unsure = 0; row = UNREAD; stage = UNSETTLED
           :: else -> stop()
           fi
       }
#endif

    /* driver_settle() */
    :: atomic { MAY_SCAN && stage == UNSETTLED && IS_SETTLED -> RECORD(SETTLED) }

    /* driver_scan(): a page into memory, memory into the shard, the position into the record */
    :: atomic {
           MAY_SCAN && stage == SETTLED && row == UNREAD ->
           row = (transaction == COMMITTED -> READ : MISSING);
           if
           :: into = 0
#ifndef SCAN_INTO_LAYER_0
           :: views[w].other_layers > 1 -> into = views[w].other_layers - 1
#endif
           fi;
#ifdef CHECKPOINT_BEFORE_FLUSH
           RECORD(SCANNED)
#endif
       }
#if defined(SHARED_UPLOAD_NAME) || defined(OR_WITHOUT_LOOKING)
    :: MAY_SCAN && row == READ -> /* a page without the key; where names differ and the tag is looked at it does nothing */
       uploads[UPLOAD(token)] = 1;
       atomic { or_upload(NAME(views[w].other, into, 0, EPOCH(w)), READ) }
#endif
    :: PRIVATE
           MAY_SCAN && (row == MISSING || row == READ) ->
           uploads[UPLOAD(token)] = (row == READ -> 2 : 1);
           atomic {
#ifdef FLUSH_NEWEST_LAYER_ONLY
               if
               :: into < views[w].other_layers - 1 -> uploads[UPLOAD(token)] = 1
               :: else -> skip
               fi;
#endif
               or_upload(NAME(views[w].other, into, 0, EPOCH(w)), UPLOADED)
           }
       END
    :: atomic { IS_BUILDING && row == UPLOADED && stage == SETTLED -> row = UNREAD; into = 0; RECORD(SCANNED) }

#ifdef CATCH_UP
    /* driver_catch_up() */
    :: atomic {
           IS_BUILDING && stage == SCANNED && transaction == COMMITTED ->
           add_row(NAME(views[w].other, OTHER_WRITTEN(w), 0, EPOCH(w)))
       }
    :: atomic {
           IS_SWITCHED && transaction == COMMITTED -> add_row(NAME(views[w].current, WRITTEN(w), 0, EPOCH(w)))
       }
#ifndef CATCH_UP_INTO_CURRENT_ONLY
    :: atomic {
           IS_SWITCHED && transaction == COMMITTED -> add_row(NAME(views[w].other, OTHER_WRITTEN(w), 0, EPOCH(w)))
       }
#endif
#endif

    /* driver_cutover(), driver_rollback(), driver_leave() for an abort or at the end */
    :: atomic { IS_BUILDING && stage == SCANNED && row != READ -> CHANGE(EXCHANGE; views[w].phase = SWITCHED) }
    :: atomic {
           IS_SWITCHED && rollbacks > 0 ->
           CHANGE(EXCHANGE; views[w].phase = BUILDING; rollbacks--; row = UNREAD; stage = RECORDED(w))
       }
    :: atomic { (IS_BUILDING || IS_SWITCHED) -> CHANGE(LEAVE) }

    :: atomic { /* release.lua */
           IS_STEADY && !IS_WANTED && views[w].unsure == 0 ->
           stop()
       }
    od
}

/* The lease of whoever holds the mutex runs out: it died, or it sleeps. */
proctype lease()
{
    do
    :: atomic { mutex != 0 && expiries < EXPIRIES -> mutex = 0; expiries++ }
    od
}
#undef w
#undef token
#undef stage
#undef row
#undef into
#undef complete
