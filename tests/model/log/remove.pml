/* SPDX-License-Identifier: MIT */
/* A writer that may be gone leaves the register, and nothing is degraded: the view says that it is in doubt, a notice
 * that names its registration is appended to its lane, and when `folded` has passed the notice it is removed. It may
 * only have slept: then it registers again, under a higher number, before it acknowledges anything behind the notice.
 * With LEAVES nobody is removed; instead a writer that has nothing to add leaves the register by itself, when its entry
 * is folded, and may come back; its command may be executed late, behind its next registration.
 * One lane, whose node fails over to a replica that lags; the roll call waits for whoever is registered; other writers
 * answer it at once. The folder and the remover may stop for any time. README.md says what is left out.
 *
 * denied: the key is acknowledged, the view has the lane's era, and the key is neither in the shards nor in the lane. */

#ifndef FAILOVERS
#define FAILOVERS 2
#endif
#ifndef REGISTRATIONS
#define REGISTRATIONS 3
#endif
#ifndef LENGTH
#define LENGTH 4
#endif
#define ANCHOR 1
#define KEY 2
#define NOTICE 3 /* + number of a registration */

byte lane[LENGTH], length = 1, era = 1;   /* the lane of the master */
byte view_era = 1, folded, registered;    /* registered: its number; 0: it is not */
bool doubt;
byte said;                                /* era of which the writer says that its entry is there */
byte failovers, highest;                  /* highest: the number that was given last */
bool shard, acknowledged, denied;
byte leaves;                              /* the number of a registration that its writer has given up; 0: none */

#ifdef LEFT_WITHOUT_NUMBER
#define IS_LEFT (registered > 0)
#else
#define IS_LEFT (registered == leaves)
#endif
#ifdef NUMBER_KEPT
#define GAVE_UP false
#else
#define GAVE_UP (registered <= left)
#endif
#ifdef NOT_FENCED
#define IS_FENCED false
#else
#define IS_FENCED (removed >= number)
#endif
#ifdef NO_DOUBT
#define STILL_THE_SAME (registered == k)
#elif defined(NUMBER_NOT_COMPARED)
#define STILL_THE_SAME (registered > 0)
#else
#define STILL_THE_SAME (registered == k && doubt)
#endif
#ifdef REMOVED_OF_ANY_ERA
#define IN_THIS_ERA true
#else
#define IN_THIS_ERA (view_era == n_era)
#endif
#ifdef REMOVED_BEFORE_FOLDED
#define IS_FOLDED true
#else
#define IS_FOLDED (folded >= n_at)
#endif

inline find(bytes_)
{
    seen = 1;
    do
    :: seen < length && lane[seen] != bytes_ -> seen++
    :: else -> break
    od;
    seen = (seen < length -> seen : 0)
}

inline append(bytes_)
{
    if
    :: length < LENGTH -> lane[length] = bytes_; length++
    :: else
    fi
}

inline judge()
{
    find(KEY);
    denied = acknowledged && view_era == era && !shard && seen == 0;
    seen = 0;
    assert(!denied)
}

proctype node()
{
    byte seen;
end:
    do
    :: atomic { failovers < FAILOVERS -> failovers++; era++;
           do
           :: length > 1 -> length--; lane[length] = 0
           :: break
           od }
    :: atomic { view_era != era && (registered == 0 || said == era) -> view_era = era; folded = 0; judge() }
    od
}

/* Adds the key. It reads the view and the tail, and what it read may be used much later. */
proctype writer()
{
    byte left;                       /* the registration that it gave up last */
    byte given, number, removed;     /* of its registration, as home says and as it goes by; of a notice that it met */
    byte at, read_era = 1;           /* its reader's position, and the era that it reads */
    byte own_era = 1, kept_at;       /* the era that its entry was met under, and where */
    byte seen;
    bool kept, met, missing, reads;  /* kept: acknowledged, not forgotten; met: under own_era */
    byte r_era, r_last, r_key, r_removed; /* a tail read: era, last entry, the key's place, a notice before that */
    byte v_era, v_folded;            /* a view */
end:
    do
       /* registers, or again: the view says that it is in doubt, or not there; or it has met a notice */
    :: atomic { (number == 0 || missing || IS_FENCED) && given == number && highest < REGISTRATIONS ->
           if
           :: registered == 0 || doubt || registered <= removed || GAVE_UP -> highest++; registered = highest; doubt = false
           :: else
           fi;
           given = registered; missing = false; v_era = 0; v_folded = 0;
#ifdef TAKEN_UP_AT_ONCE
           number = given
#endif
       }
#ifdef LEAVES
       /* nothing of it is kept or under way: it leaves. What it has read is nothing, and it acknowledges nothing */
    :: atomic { number > 0 && given == number && !kept && left == 0 ->
           leaves = number; left = number;
#ifndef LEAVES_UNDER_WAY
           number = 0; given = 0; reads = false; r_era = 0; r_last = 0; r_key = 0; r_removed = 0;
#endif
           v_era = 0; v_folded = 0; missing = false }
#endif
       /* sends its entry, perhaps twice, as after a broken connection */
    :: atomic { number > 0 && !kept -> append(KEY) }
       /* a tail read, and what follows from it */
    :: atomic { number > 0 && !reads && era == read_era && at < length ->
           reads = true; r_era = era; r_last = length - 1; seen = at + 1;
           do
           :: seen < length && lane[seen] == KEY -> r_key = seen; break
           :: seen < length && lane[seen] > NOTICE ->
               r_removed = (lane[seen] - NOTICE > r_removed -> lane[seen] - NOTICE : r_removed); seen++
           :: seen < length && lane[seen] < KEY -> seen++
           :: else -> break
           od;
           seen = 0 }
    :: atomic { reads ->
           removed = (r_removed > removed -> r_removed : removed);
           if
           :: r_key > 0 && !kept && r_era == own_era && !(IS_FENCED) ->
               kept = true; met = true; kept_at = r_key; acknowledged = true; at = r_last
           :: r_key == 0 || kept -> at = r_last
           :: else /* it stays before its entry */
           fi;
           reads = false; r_era = 0; r_last = 0; r_key = 0; r_removed = 0;
           judge() }
       /* the view; and then it reads on from `folded` there, or from where it is; what it had read before is nothing.
        * Only then it goes by its new registration. */
    :: atomic { given > 0 && v_era == 0 && !missing -> v_era = view_era; v_folded = folded;
#ifdef NO_DOUBT
           missing = registered == 0
#else
           missing = registered != given || doubt
#endif
       }
    :: atomic { v_era != 0 && !missing ->
           if
           :: !(kept && (!met || own_era != v_era)) ->
               if
               :: read_era != v_era || v_folded > at -> at = v_folded
               :: read_era == v_era
               fi;
               read_era = v_era; own_era = v_era; met = kept; number = given;
               reads = false; r_era = 0; r_last = 0; r_key = 0; r_removed = 0;
               if
               :: kept && v_folded >= kept_at -> kept = false; met = false; kept_at = 0
               :: else
               fi
           :: else
           fi;
           v_era = 0; v_folded = 0 }
       /* the roll call: it enters the era, appends what is missing, looks, says */
    :: atomic { number > 0 && own_era != era && era != view_era && registered > 0 -> own_era = era; met = false }
    :: atomic { number > 0 && own_era == era && kept && !met -> find(KEY);
           if
           :: seen == 0 -> append(KEY)
           :: else -> met = true; kept_at = seen
           fi;
           seen = 0 }
    :: atomic { number > 0 && own_era == era && era != view_era && registered > 0 && said != era && (!kept || met) ->
           said = era }
    od
}

/* What was sent to home, perhaps on a connection that broke */
proctype sent()
{
    byte seen;
end:
    do
    :: atomic { leaves > 0 ->
           if
           :: IS_LEFT -> registered = 0; doubt = false; said = 0
           :: else
           fi;
           leaves = 0; judge() }
    od
}

proctype folder()
{
    byte f_era = 1, last, noted, seen;
    bool key;
end:
    do
    :: atomic { f_era != view_era && noted == 0 -> f_era = view_era; key = key || shard; last = 0 }
    :: atomic { f_era == era && last + 1 < length && noted == 0 -> find(KEY); key = key || seen > 0; last = length - 1;
           seen = 0 }
    :: atomic { last > 0 && noted == 0 -> shard = shard || key; noted = last }
    :: atomic { noted > 0 ->
           if
           :: f_era == view_era && noted > folded -> folded = noted
           :: else
           fi;
           noted = 0 }
    od
}

proctype remover()
{
    byte k, n_at, n_era, seen;
end:
    do
    :: atomic { k == 0 && registered > 0 -> k = registered;
#ifndef NO_DOUBT
           doubt = true
#endif
       }
    :: atomic { k > 0 && n_at == 0 && length < LENGTH -> append(NOTICE + k); n_at = length - 1; n_era = era }
    :: atomic { n_at > 0 && STILL_THE_SAME && IN_THIS_ERA && IS_FOLDED ->
           registered = 0; doubt = false; said = 0; k = 0; n_at = 0; n_era = 0; judge() }
    :: atomic { k > 0 -> k = 0; n_at = 0; n_era = 0 } /* begins anew */
    od
}

init {
    atomic {
        lane[0] = ANCHOR;
        run node();
        run writer();
        run folder();
#ifdef LEAVES
        run sent()
#else
        run remover()
#endif
    }
}
