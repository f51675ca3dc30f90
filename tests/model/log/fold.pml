/* SPDX-License-Identifier: MIT */
/* Folding: two folders, either of which may stop for any time and go on as if nothing had been (its lease ran out), or
 * break its connection behind a write that is executed later. One lane, one shard, one key beside others. What is
 * written is a page or, where the shard is not resident, single bits or (BLOCKS, which is what is done) a block that is
 * read before. README.md says what is left out.
 *
 * denied: a shard loaded after the key's add was acknowledged has not the key.
 * mistaken: a loader finds no anchor although the view still names it: it would take the lane for lost. */

#ifndef ENTRIES
#define ENTRIES 2
#endif
#ifndef TOKENS
#define TOKENS 2 /* that are drawn, so take-overs */
#endif
#ifndef BREAKS
#define BREAKS 1 /* of a connection */
#endif
#ifdef HOME_BACK /* failover of home: the view as it was at any time before */
#define BACKS 1
#else
#define BACKS 0
#endif

byte last;   /* entry of the lane; entry 0 is the anchor that it was made with */
byte first; /* entry that is still there */
byte at;     /* the key's entry; 0: none yet */
bool shard;  /* has the key's bits */
byte header; /* token in the shard's header */
byte number, writer, folded; /* in the view: number of the last lease, token of the writer, position */
byte was_number, was_writer, was_folded, backs;
bool used[2 * TOKENS + 2]; /* tokens: number * 2 + the random part */
byte breaks;
bool acknowledged, denied, mistaken;

/* The bits of a process: an applier, and the folder that copies them. */
typedef process { bool key, dirty, live, busy; byte applied };
#ifdef APPLIER
process own;
#endif

/* Written by a broken connection, and executed at any time or never. */
bool late, late_key;
byte late_token;

proctype caller()
{
    do
    :: atomic { last < ENTRIES -> last++ }
    :: atomic { last < ENTRIES && at == 0 -> last++; at = last; acknowledged = true }
    :: last == ENTRIES -> break
    od
}

/* Bits, then the dirty mark, then the position. With one folder the applier runs beside it, step by step; with two, where
 * it matters: before a position is noted, and before what is dirty is copied. */
#ifdef APPLIER
#define MAY_APPLY skip
proctype applier()
{
    bool is, fresh;
    do
    :: atomic {
           own.live && own.applied < last ->
           if
           :: first > own.applied -> own.live = false /* a gap */
           :: else -> is = (own.applied + 1 == at); own.busy = true
           fi
       }
       if
       :: own.busy ->
#ifdef POSITION_BEFORE_BITS
           own.applied++;
#endif
#ifdef MARK_BEFORE_BITS
           atomic { own.dirty = own.dirty || (is && !own.key) };
           own.key = own.key || is;
#else
           atomic { fresh = is && !own.key; own.key = own.key || is };
           own.dirty = own.dirty || fresh;
#endif
#ifndef POSITION_BEFORE_BITS
           own.applied++;
#endif
           atomic { is = false; fresh = false; own.busy = false }
       :: else -> is = false
       fi
    od
}
#else
#define MAY_APPLY may_apply()
#endif

inline may_apply()
{
    atomic {
        do
        :: own.live && own.applied < last ->
            if
            :: first > own.applied -> own.live = false
            :: else ->
                own.applied++;
                if
                :: own.applied == at && !own.key -> own.key = true; own.dirty = true
                :: else
                fi
            fi
        :: break
        od
    }
}

#if defined(BITS_WITHOUT_LOOKING) || defined(NO_TOKEN_FOR_BITS)
#define HEADER_IS_STILL_OURS true
#else
#define HEADER_IS_STILL_OURS (header == t)
#endif

inline draw() /* the lease: a number, with a random part that nobody has had */
{
    number++;
    number <= TOKENS;
#if BACKS == 0
    t = number;
#elif defined(NO_RANDOM)
    t = number * 2;
#else
    if
    :: !used[number * 2] -> t = number * 2
    :: !used[number * 2 + 1] -> t = number * 2 + 1
    fi;
    used[t] = true;
#endif
    writer = t
}

proctype folder()
{
#ifndef APPLIER
    process own;
#endif
    byte t, from, noted, bound;
    bool pages, write, copy;
#ifdef BLOCKS
    bool seen;
#endif
take_over:
    atomic {
        number < TOKENS && !own.busy -> draw();
        own.live = false;
        if
        :: pages = true
        :: pages = false
        fi
    }
#ifdef PAGES_BEFORE_TOKEN
    own.key = own.key || shard;
#endif
#ifdef BLOCK_READ_BEFORE_TOKEN
    seen = shard;
#endif
    from = folded;
#ifdef NO_TOKEN_FOR_BITS
    if
    :: !pages -> goto read
    :: else
    fi;
#endif
    atomic {
        if
        :: header < t -> header = t
        :: else -> t = 0; from = 0; goto take_over /* somebody came after us */
        fi
    }
read:
    atomic {
        if
        :: pages ->
#ifndef PAGES_BEFORE_TOKEN
#ifndef PAGES_NOT_READ
            own.key = own.key || shard;
#endif
#endif
#ifndef MARKS_KEPT
            own.dirty = (own.key && !shard)
#endif
        :: else -> own.key = false; own.dirty = false
        fi;
        own.applied = from;
        own.live = true;
        from = 0
    }
    do
    :: own.live ->
#ifndef POSITION_AFTER_COPY
        MAY_APPLY;
        noted = own.applied;
#endif
#ifdef CLEARED_AFTER_COPY
        MAY_APPLY;
        atomic { write = own.dirty; copy = own.key };
        MAY_APPLY;
        own.dirty = false;
#else
        MAY_APPLY;
        atomic { write = own.dirty; own.dirty = false };
        MAY_APPLY;
        copy = own.key;
#endif
#ifdef POSITION_AFTER_COPY
        MAY_APPLY;
        noted = own.applied;
#endif
#ifdef FOLDED_BEFORE_PAGES
        folded = (noted > folded -> noted : folded);
#endif
#ifdef TRIM_BEFORE_PAGES
        first = (noted > first -> noted : first);
#endif
        if
        :: pages -> /* for this key or for another one in the page */
            atomic {
                if
#ifdef HEADER_NOT_COMPARED
                :: shard = copy
#else
                :: header == t -> shard = copy
                :: header != t -> t = 0; noted = 0; write = false; copy = false; goto take_over
#endif
                :: breaks < BREAKS && !late -> /* no answer */
                    breaks++;
                    late = true;
                    late_key = copy;
                    late_token = t;
                    write = false;
                    copy = false;
#ifdef TOKEN_KEPT
                    own.dirty = true;
                    goto next
#else
                    noted = 0;
                    t = 0;
                    goto take_over
#endif
                fi
            }
#ifdef BLOCKS
        :: !pages -> /* its block, for this key or another one, is read, completed, and written if the header is ours */
#ifndef BLOCK_READ_BEFORE_TOKEN
            seen = shard;
#endif
            atomic {
                if
                :: seen || !copy -> seen = false /* it has all bits already: nothing is written */
#ifdef HEADER_NOT_COMPARED
                :: shard = seen || copy; seen = false
#else
                :: header == t -> shard = seen || copy; seen = false
                :: header != t -> t = 0; noted = 0; write = false; copy = false; seen = false; goto take_over
#endif
                :: breaks < BREAKS && !late -> /* no answer */
                    breaks++;
                    late = true;
                    late_key = seen || copy;
                    late_token = t;
                    write = false;
                    copy = false;
                    seen = false;
                    noted = 0;
                    t = 0;
                    goto take_over
                fi
            }
#else
        :: write && !pages -> /* BITFIELD asks for no token: the header is read behind it */
            shard = shard || copy;
            atomic {
                if
                :: HEADER_IS_STILL_OURS
                :: else -> t = 0; noted = 0; write = false; copy = false; goto take_over
                fi
            }
#endif
        :: !write
        fi;
#ifdef TRIM_BEFORE_FOLDED
        first = (noted > first -> noted : first);
#endif
        atomic {
            if
#ifndef FOLDED_WITHOUT_TOKEN
            :: writer != t -> t = 0; noted = 0; write = false; copy = false; goto take_over
#endif
            :: else ->
#ifdef FOLDED_ANY_WAY
                folded = noted;
#else
                folded = (noted > folded -> noted : folded);
#endif
                bound = folded
            fi
        }
        first = (bound > first -> bound : first);
next:
        atomic { noted = 0; bound = 0; write = false; copy = false }
    :: goto take_over
    od
}

proctype connection() /* what was sent over it is executed after all */
{
    do
    :: atomic {
           late ->
           if
           :: late_token == header -> shard = late_key
           :: else
           fi;
           late = false;
           late_key = false;
           late_token = 0
       }
    od
}

#if BACKS > 0
proctype home()
{
    atomic { was_number = number; was_writer = writer; was_folded = folded };
    atomic { number = was_number; writer = was_writer; folded = was_folded; backs++ }
}
#endif

#if defined(USED_WITHOUT_PAGE)
#define MAY_BE_USED have_tail
#elif defined(USED_WITHOUT_TAIL)
#define MAY_BE_USED have_page
#else
#define MAY_BE_USED (have_page && have_tail)
#endif

proctype loader()
{
    byte from;
    bool key, have_page, have_tail;
    atomic {
        acknowledged;
#ifndef FOLDED_NOTED_LATE
        from = folded
#endif
    }
    do
    :: !have_page -> atomic { key = key || shard; have_page = true }
#ifdef FOLDED_NOTED_LATE
          from = folded
#endif
       :: atomic {
              !have_tail ->
              if
              :: first > from ->
#if BACKS == 0
                  mistaken = mistaken || (from == folded);
#ifdef MISTAKEN
                  assert(!mistaken);
#endif
#endif
                  break
              :: else -> key = key || (at > from); have_tail = true
              fi
          }
       :: atomic { MAY_BE_USED -> denied = !key; assert(!denied); break }
       od;
    atomic { from = 0; key = false; have_page = false; have_tail = false }
}

init {
    atomic {
        run caller();
        run folder();
#ifdef APPLIER
        run applier();
#else
        run folder();
#endif
        run connection();
#if BACKS > 0
        run home();
#endif
        run loader()
    }
}
