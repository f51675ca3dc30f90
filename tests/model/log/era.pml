/* SPDX-License-Identifier: MIT */
/* A lane whose master fails over to a replica that lags: eras, the roll call of registered writers, and readers whose
 * connections survive. Two servers, either of which is the master; two writers, one of which adds the key; a reader
 * that is resident. The shards are on a node of their own that is never lost. With BUILDS there is one writer, and
 * another generation is built, which is read from the cutover on. With MOVES the lane's slot goes to the other server
 * and comes back, and a replica that lags takes the place of a server, not of the other one; there is one writer.
 * With HOME_LAGS the view lies beside the lane, and goes back with it to before anything was folded: a loader then
 * takes the shard for empty, and does not read it, unless the view says that it may have bits.
 * README.md says what is left out.
 *
 * denied: a reader says "absent" of the key after its add was acknowledged.
 * mistaken: the anchor that the view names is not there, under the era that it names. */

#ifndef FAILOVERS
#define FAILOVERS 2
#endif
#define LENGTH 4
#define ANCHOR 1  /* what entries say: the one that the lane was made with, */
#define KEY 2     /* the key, of writer 0, */
#define OTHER 3   /* another key, of writer 1 */

typedef server { byte length, era; byte entry[LENGTH] };
server at[2];
bit master;
#ifdef MOVES
byte eras = 2, failovers, moves;
byte id[2] = {1, 2};  /* of the servers */
byte arrived = 1;     /* entries that the master had when the slot came, by one command: a replica has all, or no lane */
bool had[8], bad[8];  /* eras that the view has left; before entries may have been lost */
#define KEPT (id[0] == view_era || id[1] == view_era)
#else
byte eras = 1, failovers;
#endif
byte view_era = 1;   /* as the view has accepted it */
byte said[2];        /* era of which the writer says that its entries are there */
bool registered[2];
byte folded;         /* position in the view: id, and its bytes */
byte folded_bytes = ANCHOR;
bool shard;
#ifdef HOME_LAGS
#define MAY_HAVE_BITS (filled || folded_any)
bool filled;         /* the view says that the shard may have bits which the lane lacks */
bool folded_any;     /* `folded` was stored */
#else
#define MAY_HAVE_BITS true
#endif
bool acknowledged, denied, mistaken;
#ifdef BUILDS
bool begun, row;     /* the transaction that adds the key has begun; its row is committed */
bool cut;            /* the new generation is the one that is read */
bool shard_new;
bool has_new;        /* the view has a position of the new generation: the cutover is near, or was */
byte folded_new, folded_new_bytes;
#endif

#define IS_KEY(e) ((e) % 2 == 0)

#ifdef ACKNOWLEDGED_UNDER_ANY_ERA
#define MET_UNDER(e) true
#else
#define MET_UNDER(e) (at[master].era == (e))
#endif
#ifdef LEAVES_EARLY
#define MAY_LEAVE true
#elif defined(BUILDS)
#define MAY_LEAVE (folded >= kept && (!has_new || folded_new >= kept))
#else
#define MAY_LEAVE (folded >= kept)
#endif
#ifdef ERAS_NOT_COMPARED
#define OF_ERA_OF_S0 true
#else
#define OF_ERA_OF_S0 (view_era == era)
#endif
#ifdef NOT_NEAR
#define WAS_NEAR true
#elif defined(WITHDRAWN_UNSEEN)
#define WAS_NEAR near
#else
#define WAS_NEAR (near && has_new)
#endif
#ifdef TAKES_AT_ONCE
#define ALL_SAID true
#else
#define HAS_SAID(w) (!registered[w] || said[w] == at[master].era)
#define ALL_SAID (HAS_SAID(0) && HAS_SAID(1))
#endif
#ifdef ANCHOR_BY_ID
#define SAME_ANCHOR true
#else
#define SAME_ANCHOR (at[s].entry[position] == bytes)
#endif
#ifdef GOES_ON_AS_IT_WAS
#define SAME_ERA true
#else
#define SAME_ERA (own_era == view_era)
#endif
#if defined(MOVES) && !defined(ERA_COMES_BACK)
#define MAY_TAKE (!bad[at[master].era] && (KEPT || !had[at[master].era]))
#else
#define MAY_TAKE true
#endif
#ifdef NO_ROLE
#define IS_MASTER true
#else
#define IS_MASTER (s == master)
#endif
#ifdef FOLDED_OF_OLD_ERA
#define OF_THIS_ERA true
#else
#define OF_THIS_ERA (era == view_era)
#endif

/* The replica takes all that the master has; its replication id is the master's. */
proctype replica()
{
end:
    do
#ifdef MOVES
    :: d_step {
           moves < 2 ->
           moves++;
           at[1 - master].length = at[master].length;
           at[1 - master].entry[0] = at[master].entry[0];
           at[1 - master].entry[1] = at[master].entry[1];
           at[1 - master].entry[2] = at[master].entry[2];
           at[1 - master].entry[3] = at[master].entry[3];
           arrived = at[master].length;
           master = 1 - master;
           at[master].era = id[master]
       }
    :: d_step {
           failovers < FAILOVERS && at[master].length > arrived ->
           failovers++;
           at[master].length--;
           at[master].entry[at[master].length] = 0;
           eras++;
           id[master] = eras;
           at[master].era = eras
       }
#else
    :: d_step {
           (at[1 - master].length != at[master].length || at[1 - master].era != at[master].era) ->
           at[1 - master].length = at[master].length;
           at[1 - master].era = at[master].era;
           at[1 - master].entry[0] = at[master].entry[0];
           at[1 - master].entry[1] = at[master].entry[1];
           at[1 - master].entry[2] = at[master].entry[2];
           at[1 - master].entry[3] = at[master].entry[3]
       }
    :: d_step { failovers < FAILOVERS -> failovers++; master = 1 - master; eras++; at[master].era = eras }
#ifdef HOME_LAGS
    :: d_step { failovers < FAILOVERS -> failovers++; master = 1 - master; eras++; at[master].era = eras;
           folded = 0; folded_bytes = ANCHOR; folded_any = false; filled = false }
#endif
    :: d_step { failovers < FAILOVERS -> failovers++; eras++; at[master].era = eras } /* nothing was lost */
#endif
    od
}

/* Position of an entry of writer w in the lane of the master, or LENGTH. */
inline find(w_)
{
    seen = 0;
    do
    :: seen < at[master].length && (at[master].entry[seen] < 2 || at[master].entry[seen] % 2 != w_) -> seen++
    :: else -> break
    od;
    if
    :: seen == at[master].length -> seen = LENGTH
    :: else
    fi
}

inline append(bytes_)
{
    if
    :: at[master].length < LENGTH -> at[master].entry[at[master].length] = bytes_; at[master].length++
    :: else
    fi
}

/* Adds its key, registered before the first XADD, and takes part in roll calls until its entry is folded. */
proctype writer(bit w)
{
    byte era, seen, kept = LENGTH; /* where the own entry was met */
    bool sure, done;
#ifdef BUILDS
    bool forgets; /* a view said that its entry is folded */
    begun = true;
#endif
#ifndef REGISTERS_LATE
    registered[w] = true;
#endif
    atomic { append(KEY + w) };
end:
    do
    :: atomic { !sure -> era = view_era; find(w);
           if
           :: seen < LENGTH && MET_UNDER(era) -> kept = seen; sure = true;
                if
                :: w == 0 -> acknowledged = true
                :: else
                fi
           :: else
           fi;
           era = 0; seen = 0
       }
#ifdef REGISTERS_LATE
    :: sure && !registered[w] && !done -> registered[w] = true
#endif
       /* the era is another one than the view's */
    :: atomic { registered[w] && at[master].era != view_era && said[w] != at[master].era && era == 0 ->
           era = at[master].era; find(w);
           if
#ifndef NOT_APPENDED_AGAIN
           :: seen == LENGTH -> append(KEY + w)
#endif
           :: else
           fi;
           seen = 0
       }
    :: atomic { era != 0 ->
           find(w);
#if defined(SAYS_WITHOUT_LOOKING) || defined(NOT_APPENDED_AGAIN)
           said[w] = at[master].era;
#else
           if
           :: at[master].era == era && seen < LENGTH -> said[w] = era; kept = seen;
#ifdef BUILDS
              forgets = false
#endif
           :: else
           fi;
#endif
           era = 0; seen = 0
       }
#ifdef BUILDS
    :: atomic { sure && !row -> row = true }
    :: atomic { sure && registered[w] && !forgets && view_era == at[master].era && era == 0 && MAY_LEAVE ->
           forgets = true
       }
#undef MAY_LEAVE
#define MAY_LEAVE forgets
#endif
       /* a clean stop: its entry is folded */
    :: atomic { sure && registered[w] && view_era == at[master].era && era == 0 && MAY_LEAVE ->
           registered[w] = false;
           done = true
       }
    od
}

/* All have said it: the view takes the era. What folded names may be gone, so it names the first entry again. */
proctype home()
{
end:
    do
#if defined(MOVES) && !defined(ERA_COMES_BACK)
    :: d_step { /* another stream takes the lane's place; a new era stands for its new number */
           view_era != at[master].era && !MAY_TAKE ->
           eras++;
           id[master] = eras;
           at[master].era = eras
       }
#endif
    :: d_step {
           view_era != at[master].era && ALL_SAID && MAY_TAKE ->
#ifdef MOVES
           had[view_era] = true;
           if
           :: !KEPT ->
               bad[1] = had[1]; bad[2] = had[2]; bad[3] = had[3]; bad[4] = had[4];
               bad[5] = had[5]; bad[6] = had[6]; bad[7] = had[7]
           :: else
           fi;
#endif
           view_era = at[master].era;
#if defined(HOME_LAGS) && !defined(TAKEN_FOR_EMPTY)
           filled = true;
#endif
#ifndef FOLDED_STAYS
           folded = 0;
           folded_bytes = at[master].entry[0];
#ifdef BUILDS
           folded_new = 0;
           folded_new_bytes = at[master].entry[0]
#endif
#endif
       }
#ifdef BUILDS
    :: d_step { has_new && !cut -> has_new = false; folded_new = 0; folded_new_bytes = 0 } /* the lane is too long */
#endif
    od
}

#ifdef BUILDS
/* S0, settle, rows; then the entries behind S0, shards, and the cutover, which first puts the positions into the view
 * and switches behind what was read and written since. Whatever a lane loses meanwhile is its end here. */
proctype builder()
{
    byte era, position, bytes;
    bool key, near;
    atomic {
        at[master].era == view_era ->
        era = view_era;
        position = at[master].length - 1;
        bytes = at[master].entry[position]
    }
    !begun || row;
    key = row;
    do
    :: atomic {
           at[master].era == era ->
           do
           :: position + 1 < at[master].length ->
               position++;
               bytes = at[master].entry[position];
               key = key || IS_KEY(bytes)
           :: else -> break
           od
       }
       shard_new = key;
#ifdef NEAR_BEHIND_READ
       atomic {
           if
           :: OF_ERA_OF_S0 -> has_new = true; folded_new = position; folded_new_bytes = bytes; near = true
           :: else -> break
           fi
       }
#endif
       atomic {
           if
           :: !OF_ERA_OF_S0 -> break
           :: OF_ERA_OF_S0 && WAS_NEAR -> has_new = true; folded_new = position; folded_new_bytes = bytes;
               cut = true; break
           :: OF_ERA_OF_S0 && !WAS_NEAR -> has_new = true; folded_new = position; folded_new_bytes = bytes;
               near = true
           fi
       }
    od;
    atomic { era = 0; position = 0; bytes = 0; key = false; near = false }
}
#endif

/* A tail read, and INFO behind it, over a connection that survives: s is the server that it leads to. */
inline compare_anchor()
{
    if
    :: position < at[s].length && SAME_ANCHOR -> good = true
    :: else
    fi
}

inline apply_tail()
{
    do
    :: position + 1 < at[s].length ->
        position++;
        bytes = at[s].entry[position];
        key = key || IS_KEY(bytes)
    :: else -> break
    od
}

/* A resident coordinator; the folder, too, with FOLDS. It does not forget its bits with an era. */
proctype reader(bool folds)
{
    bit s;
    byte era, position, bytes = ANCHOR, own_era = 1; /* era of the position */
    bool key, good, must;
#ifdef BUILDS
    bool of_new; /* what is in memory is the new generation's */
#endif
end:
    do
    :: atomic { /* the view is read, then the tail; the connection may be an old one */
           if
           :: s = master
           :: skip
           fi;
           must = acknowledged;
           era = view_era;
           compare_anchor();
           if
           :: good && SAME_ERA -> apply_tail()
           :: else -> /* loaded again: it keeps the bits that it has */
               own_era = view_era;
#ifdef BUILDS
               if
               :: cut && !folds ->
                   position = folded_new;
                   bytes = folded_new_bytes;
                   key = (key && of_new) || shard_new;
                   of_new = true
               :: else -> position = folded; bytes = folded_bytes; key = key || shard
               fi;
#else
               position = folded;
               bytes = folded_bytes;
               key = key || (shard && MAY_HAVE_BITS);
#endif
#ifdef MISTAKEN
               good = false;
               compare_anchor();
               mistaken = mistaken || (!good && s == master && at[s].era == view_era);
               assert(!mistaken);
#endif
               must = false;
               era = 0
           fi;
           good = false
       }
       if
       :: era != 0 ->
           atomic { /* INFO */
#ifdef ERA_OF_LATER_VIEW
               era = view_era;
#endif
#ifdef NO_ERA
               era = at[s].era;
#endif
               if
               :: at[s].era == era && IS_MASTER ->
                  denied = denied || (must && !key && !folds);
                  assert(!denied);
                  if
                  :: folds -> shard = shard || key
                  :: else -> era = 0
                  fi
               :: else -> era = 0
               fi;
               must = false
           }
           atomic {
               if
               :: folds && era != 0 && position > folded && OF_THIS_ERA -> folded = position; folded_bytes = bytes;
#ifdef HOME_LAGS
                  folded_any = true
#endif
               :: else
               fi;
               era = 0
           }
       :: else
       fi
    od
}

init {
    atomic {
        at[0].length = 1;
        at[0].entry[0] = ANCHOR;
        at[0].era = 1;
        at[1].length = 1;
        at[1].entry[0] = ANCHOR;
        at[1].era = 1;
#ifdef MOVES
        at[1].length = 0;
        at[1].era = 2;
#endif
        run replica();
        run home();
        run writer(0);
#ifdef BUILDS
        run builder();
#elif !defined(MOVES)
        run writer(1);
#endif
#ifdef FOLDS
        run reader(true);
#endif
        run reader(false)
    }
}
