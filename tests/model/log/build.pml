/* SPDX-License-Identifier: MIT */
/* A build beside a lane that is trimmed: hold, shards, S0, settle, checkpoint, a takeover that resumes, cutover, and a
 * reader. Two builders, either of which may stop at any time and go on as if nothing had been; with LOSS its shard is lost once.
 * The key is added while its row is not committed. The generation that is read before has every entry. README.md says
 * what is left out.
 *
 * denied: the new generation, loaded after the cutover, has not the key although its add was acknowledged. */

#ifndef LENGTH
#define LENGTH 3
#endif
byte last, first, at; /* entries; the oldest one there; the key's */
byte folded;          /* of the generation that is read before */
byte hold = 255;      /* 255: none */
bool begun, row, acknowledged, denied;
bool shard;           /* of the new generation, */
byte header;          /* and the token in it; 0: there is no shard */
byte made;            /* the token under which it was made, as the view has it */
byte writer, tokens;  /* in the view; drawn */
bool lost;            /* the shard was, once */
bool scanned;         /* the record: the rows were read */
byte recorded;        /* and the position; 255: there is none */
byte folded_new;
bool cut;

#ifdef GAP_IGNORED
#define ANCHOR_COMPARED false
#else
#define ANCHOR_COMPARED true
#endif
#ifdef HEADER_NOT_COMPARED
#define HEADER_IS_OURS true
#else
#define HEADER_IS_OURS (header == t)
#endif
#ifdef MADE_NOT_COMPARED
#define COUNTS (header != 0)
#else
#define COUNTS (header != 0 && header >= made)
#endif
#ifdef RECORD_NOT_COMPARED
#define RECORD_WITHOUT_TOKEN true
#else
#define RECORD_WITHOUT_TOKEN false
#endif
#ifdef CUTOVER_NOT_COMPARED
#define CUT_WITHOUT_TOKEN true
#else
#define CUT_WITHOUT_TOKEN false
#endif

proctype caller()
{
    begun = true;
    atomic { last < LENGTH -> last++; at = last }
    acknowledged = true;
    row = true
}

proctype others()
{
end:
    do
    :: atomic { last < LENGTH - 1 -> last++ }
    :: atomic { folded < last -> folded = last } /* the folder of the generation that is read */
    :: atomic { /* it trims by the bound that the script answers */
#ifdef TRIM_BY_OWN_VIEW
           first < folded -> first = folded
#else
           folded > first && hold > first && (!cut || folded_new > first) ->
           first = (hold < folded -> hold : folded);
           first = ((cut && folded_new < first) -> folded_new : first)
#endif
       }
    :: atomic { hold != 255 && first < folded -> first = folded } /* the lane is too long: it is trimmed over the hold */
#ifdef LOSS
    :: atomic { header != 0 && !lost -> lost = true; header = 0; shard = false }
#endif
    od
}

/* Entries after own_position. A gap: the build begins anew. */
inline follow()
{
    atomic {
        if
        :: first > position && ANCHOR_COMPARED -> goto anew
        :: else -> key = key || (at > position && at >= first); position = last
        fi
    }
}

inline upload() /* a page */
{
    if
    :: atomic { HEADER_IS_OURS -> shard = key }
    :: else ->
       if
       :: header == 0 -> goto anew
       :: else -> goto stop
       fi
    fi
}

proctype builder()
{
    byte t, position, noted, written;
    bool key, rows;
    atomic {
#ifdef RESUMES_WITHOUT_TOKEN
        tokens = (tokens == 0 -> 1 : tokens); t = tokens;
#else
        tokens++; t = tokens;
#endif
        writer = t; rows = scanned; position = recorded
    }
    atomic { /* a shard that is missing, or was made late, begins the build anew */
        if
        :: COUNTS && header <= t -> header = t
        :: COUNTS && header > t -> goto stop
        :: else -> goto anew
        fi
    };
    if
    :: recorded != 255 && rows ->
#ifndef RESUMES_WITHOUT_PAGES
        key = shard
#endif
    :: else ->
anew:
        rows = false;
        key = false;
#ifdef SETTLE_BEFORE_S0
        !begun || row;
#endif
#ifdef S0_BEFORE_HOLD
        position = last;
#endif
        atomic { /* what was sent under the former token is refused; the two scripts as one */
            if
            :: writer == t && !cut -> tokens++; t = tokens; writer = t; made = t; hold = folded;
#ifndef RECORD_KEPT
               recorded = 255; scanned = false
#endif
            :: else -> goto stop
            fi
        };
        atomic { /* the shard is made, empty; an earlier one is replaced */
            if
            :: header < t -> header = t; shard = false
            :: else -> goto stop
            fi
        };
#ifndef S0_BEFORE_HOLD
        position = last;
#endif
#ifndef SETTLE_BEFORE_S0
#ifndef NO_SETTLE
        !begun || row;
#endif
#endif
        key = key || row;
        rows = true
    fi;
    /* a checkpoint */
    if
    :: true ->
#ifdef RECORDED_BEFORE_FLUSH
        atomic {
            if
            :: writer == t -> recorded = position; scanned = rows
            :: else -> goto stop
            fi
        }
#endif
        noted = position;
        follow();
#ifdef RECORDS_LATER_POSITION
        upload();
        follow();
        noted = position;
#else
        upload();
#endif
#ifndef RECORDED_BEFORE_FLUSH
        atomic {
            if
            :: writer == t || RECORD_WITHOUT_TOKEN -> recorded = noted; scanned = rows; hold = noted
            :: else -> goto stop
            fi
        }
#endif
        written = noted;
        if
        :: true -> /* a flush fails, and the next one begins with other bitmaps */
            follow();
            key = shard;
#ifndef POSITIONS_OUTLIVE_BITMAPS
            position = written
#endif
        :: true
        fi
    :: true
    fi;
    follow();
    noted = position;
    upload();
#ifdef FOLDED_AFTER_FLUSH
    follow();
    noted = position;
#endif
    atomic { /* the cutover */
        if
        :: (writer == t || CUT_WITHOUT_TOKEN) && !cut -> cut = true; folded_new = noted; hold = 255
        :: else
        fi
    }
stop:
    t = 0; position = 0; noted = 0; written = 0; key = false; rows = false /* fewer states */
}

proctype reader()
{
    bool key;
    cut && acknowledged;
    atomic { COUNTS -> key = shard }; /* read after folded: it is noted only once here */
    atomic { first <= folded_new -> key = key || at > folded_new; denied = !key; assert(!denied) }
}

init {
    atomic {
        recorded = 255;
        run caller();
        run others();
        run builder();
        run builder();
        run reader()
    }
}
