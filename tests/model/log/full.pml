/* SPDX-License-Identifier: MIT */
/* A filter that does not grow is full by a mark in its lane: no key of an entry behind it is added. The view has the
 * mark under its lane's era. The node gets another replication id, and its history goes on; then positions stay, and the
 * record of the mark does not count any more. One coordinator has met the mark, and folds; another one begins by the
 * view, and adds a key where it knows of no mark: the view's count of keys is too low, as a folder was killed before it
 * had counted. README.md says what is left out.
 *
 * With LATE the node loses the end of its lane instead, and who marks it stops before it appends the mark. The key's
 * entry was acknowledged before, and its writer appends it again; the view takes the era when it has said so.
 *
 * denied: an acknowledged key is said to be absent. */

#ifndef ERAS
#define ERAS 2
#endif
#ifndef LATE
#define MARK 1                    /* the place of the mark in the lane; the key's is behind it */
byte era = 1;                     /* of the node */
byte last = MARK;                 /* of the lane */
byte key;                         /* the place of its entry; 0: none */
byte view_era = 1, folded;        /* of the view */
byte full_era = 1;                /* under which the view has the mark; 0: it has none */
bool in_shards;                   /* the key's bits */
bool acknowledged, denied;

#define VIEW_IS_FULL (full_era == view_era)

/* The lane's entries from at_ on. */
#define READS(at_, marked_, has_) \
    if \
    :: at_ < MARK -> marked_ = true; \
    :: else \
    fi; \
    if \
    :: key != 0 && at_ < key && !marked_ -> has_ = true \
    :: else \
    fi; \
    at_ = last

#define BEGINS(at_, marked_, has_, in_) \
    at_ = folded; marked_ = VIEW_IS_FULL && folded >= MARK; has_ = in_shards; in_ = view_era

proctype servers()
{
end:
    do
    :: d_step { era < ERAS -> era++ }
    :: d_step { view_era != era -> view_era = era; /* taken by anybody: the history goes on */
#ifdef MARK_GOES_ALONG
        full_era = (full_era == era - 1 -> era : full_era)
#endif
        }
    od
}

/* It looks at the view, reads the tail, answers, and folds. */
proctype has_met()
{
    byte at, in;
    bool marked, has;
    at = MARK; marked = true; in = 1;
end:
    do
    :: d_step { in != view_era ->
           if
#ifndef GOES_ON_MARKED
           :: marked && !(VIEW_IS_FULL) -> BEGINS(at, marked, has, in)
#endif
           :: else -> in = view_era
           fi }
    :: d_step { in == era && view_era == era -> /* else the tail cannot be read */
           READS(at, marked, has);
           denied = acknowledged && !has && !in_shards; assert(!denied) }
    :: d_step { in == era && view_era == era && at > folded -> /* the mark first, if the view lacks it */
           if
           :: marked -> full_era = view_era
           :: else
           fi;
           folded = at; in_shards = in_shards || has }
    od
}

proctype begins()
{
    byte at, in;
    bool marked, has;
end:
    do
    :: d_step { true -> BEGINS(at, marked, has, in) }
    :: d_step { in == era && in == view_era && in != 0 && key == 0 ->
           READS(at, marked, has);
           if
           :: !marked -> last++; key = last
           :: else
           fi }
    :: d_step { in == era && in == view_era && key != 0 ->
           READS(at, marked, has);
           acknowledged = acknowledged || (has && !marked);
           denied = acknowledged && !has && !in_shards; assert(!denied) }
    od
}

init {
    atomic {
        if
        :: folded = MARK
        :: folded = 0; full_era = 0
        fi;
        run servers();
        run has_met();
        run begins()
    }
}
#else
byte era = 1, view_era = 1, said = 1; /* of the node; of the view; the one that the key's writer has answered */
byte last = 1, key = 1, mark;         /* of the lane: its length, and the places of both in it; 0: it lacks that */
bool denied;

#ifdef MARKED_IN_ANY_ERA
#define MAY_MARK true
#else
#define MAY_MARK (in == era)
#endif

proctype servers()
{
end:
    do
    :: d_step { era < ERAS -> era++;
           do
           :: last > 0 -> last--
           :: break
           od;
           key = (key > last -> 0 : key);
           mark = (mark > last -> 0 : mark) }
    :: d_step { view_era != era && said == era -> view_era = era }
    od
}

proctype writes()
{
end:
    do
    :: d_step { said != era ->
           if
           :: key == 0 -> last++; key = last
           :: else
           fi;
           said = era }
    od
}

/* Two marks do no harm: the first one counts. */
proctype marks()
{
    byte in;
end:
    do
    :: d_step { view_era == era && mark == 0 -> in = era } /* it reads the tail */
       d_step {
           if
           :: MAY_MARK && mark == 0 -> last++; mark = last
           :: else
           fi;
           in = 0 }
    od
}

proctype reads()
{
end:
    do
    :: d_step { view_era == era -> denied = key == 0 || (mark != 0 && mark < key); assert(!denied) }
    od
}

init {
    atomic {
        run servers();
        run writes();
        run marks();
        run reads()
    }
}
#endif
