/* SPDX-License-Identifier: MIT */
/* An add of a key that memory has already appends nothing: a tail read that began behind it acknowledges it, as if its
 * entry were the last one that was read. Somebody else had appended the key, was never told that it is there, and does
 * not append it again. The lane's node fails over to a replica that lags; the shards are on a node that loses nothing.
 * The writer that acknowledged the key keeps it until the lane is folded up to there. Beside that a generation is
 * built: from the rows that it finds once the transactions that were open at S0 have ended, and the entries behind S0.
 * The key's row is committed behind its acknowledgement. README.md says what is left out.
 *
 * denied: the key was acknowledged, and whoever loads the shards and reads the tail does not have it. */

#ifndef FAILOVERS
#define FAILOVERS 1
#endif

mtype = { NONE, OPEN, ACKNOWLEDGED, COMMITTED };
mtype row = NONE;                    /* the transaction of whoever adds the key */
byte era = 1, view_era = 1;          /* of the lane's node; as the view accepts it */
byte last = 1, entry, notice;        /* places in the lane: its end; of the key and of the builder's notice, or 0 */
byte folded = 1;                     /* of the view: the place up to which the shards have all of the lane */
bool shard, said;                    /* the key's bit; the writer has answered the roll call of the node's era */
byte building;                       /* of the view: 1: a generation is being built, 2: it is the one that is read */
bool next;                           /* the key's bit in that one */
byte behind;                         /* the place from which that one has all of the lane */
bool denied;

#define HAS_ACKNOWLEDGED (row == ACKNOWLEDGED || row == COMMITTED)

#ifdef IN_ANY_TERM
#define IS_SAME_TERM true
#else
#define IS_SAME_TERM (asked == sole)
#endif
#ifdef NOT_ENTERED
#define IS_ENTERED true
#else
#define IS_ENTERED (own_in == r_in)
#endif
#ifdef STALE_TRUSTED
#define MAY_TRUST true
#else
#define MAY_TRUST !stale
#endif
#ifdef NOTICES_NOT_COUNTED
#define MET_NONE true
#else
#define MET_NONE !noticed
#endif
#ifdef FORGOTTEN_AT_ONCE
#define IS_FOLDED true
#else
#define IS_FOLDED (building == 2 -> behind >= kept_at : folded >= kept_at)
#endif

proctype node()
{
end:
    do
    :: d_step { era <= FAILOVERS -> era++; said = false;
           do
           :: last > 1 -> last--
           :: break
           od;
           entry = (entry > last -> 0 : entry);
           notice = (notice > last -> 0 : notice) }
    :: d_step { view_era != era && said -> view_era = era; folded = 1; behind = 1 } /* by the last one to answer */
    od
}

proctype giver()
{
end:
    d_step { entry == 0 -> last++; entry = last }
}

proctype writer()
{
    bool has, kept, stale, reads, r_has, r_noticed, saw, loads, noticed;
    byte at = 1, in = 1, own_in = 1, kept_at, kept_in, r_in, r_end, held, sole, term, asked, l_building;
    /* own_in: the era that its list of own entries is in. sole: the number of the term in which there is one generation
     * alone; 0: there may be two. asked: the term in which the add looked into memory */
end:
    do
    /* an add looks into memory, and waits for a tail read that begins now or later */
    :: d_step { row == NONE -> row = OPEN }
    :: d_step { row == OPEN && !reads && has && sole != 0 -> saw = true; asked = sole }
    :: d_step { !reads && in == era && view_era == era ->
           reads = true; r_in = era; r_end = last; r_has = entry > at; r_noticed = notice > at }
    :: d_step { reads && r_in != in -> reads = false }
#ifdef BEFORE_READ
    :: d_step { saw && row == OPEN -> row = ACKNOWLEDGED; kept = true; kept_at = at; kept_in = in }
#endif
    :: d_step { reads && r_in == in ->
           reads = false;
           has = has || r_has;
           at = r_end;
           if
#ifndef NOTICE_UNHEEDED
           :: r_noticed -> sole = 0; noticed = true
#endif
           :: else
           fi;
           if
           :: saw && row == OPEN && IS_ENTERED && IS_SAME_TERM && MAY_TRUST -> row = ACKNOWLEDGED;
#ifndef NOT_KEPT
              kept = true; kept_at = at; kept_in = in
#endif
           :: else
           fi;
           saw = false }
    :: d_step { row == ACKNOWLEDGED -> row = COMMITTED }
    /* the control: loads the view, and then says whether there is one generation */
    :: d_step { !loads -> loads = true; l_building = building; noticed = false }
    :: d_step { loads ->
           loads = false;
           if
           :: l_building == 2 && held == 0 -> held = 1; has = next; at = behind; sole = 0; stale = false; reads = false
           :: else
           fi;
           if
           :: sole == 0 && l_building != 1 && MET_NONE -> term++; sole = term
           :: l_building == 1 -> sole = 0
           :: else
           fi }
    /* another era: a roll call, then memory is read again, and the shards are ORed into it */
    :: d_step { view_era != era && !said ->
           if
           :: kept ->
              if
              :: entry == 0 -> last++; entry = last
              :: else
              fi;
              kept_at = entry; kept_in = era
           :: else
           fi;
           own_in = era; said = true }
    :: d_step { in != view_era -> in = view_era; at = folded; has = has || (held == 0 && shard) || (held == 1 && next);
           stale = true }
    :: d_step { kept && kept_in == view_era && building != 1 && IS_FOLDED -> kept = false }
    od
}

proctype folder()
{
    bool has;
    byte at = 1, in = 1;
end:
    do
    :: d_step { in == era && view_era == era && at < last -> has = has || entry > at; at = last }
    :: d_step { in == view_era && at > folded -> shard = shard || has; folded = at }
    :: d_step { in != view_era -> in = view_era; at = folded; has = shard }
    od
}

proctype builder()
{
    byte s0, in;
    bool waits;
    d_step { view_era == era -> building = 1; in = era }
#ifndef NO_NOTICE
    d_step { last++; notice = last }
#endif
    d_step { view_era == era -> s0 = last; in = era; waits = row == OPEN || row == ACKNOWLEDGED }
    d_step { !waits || row == COMMITTED -> next = row == COMMITTED }
    if
    :: d_step { view_era == era && in == era -> next = next || entry > s0; behind = last; building = 2 }
    :: d_step { in != era -> building = 0 } /* it begins anew */
    fi
}

proctype reader()
{
end:
    do
    :: d_step { HAS_ACKNOWLEDGED && view_era == era ->
           denied = (building == 2 -> !next && entry <= behind : !shard && entry <= folded);
           assert(!denied) }
    od
}

init {
    atomic {
        run node();
        run giver();
        run writer();
        run folder();
        run builder();
        run reader()
    }
}
