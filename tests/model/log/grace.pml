/* SPDX-License-Identifier: MIT */
/* After a cutover: generation 1 is read, 0 is folded on, so that the pointer can go back. Then whichever is not read is
 * retired and its shards are deleted; a generation 2 is built in its slot. A folder for each generation, any of which may
 * stop for any time; a reader by blocks. One lane, trimmed by the least position of all generations in the view.
 * README.md says what is left out.
 *
 * With LOSS a shard of the generation that is not read is lost, and the view may say so: then no lane is kept for it.
 *
 * denied: the reader says "absent" of the key after its add was acknowledged.
 * mistaken: the generation that the view reads has no shards, or its position is before the lane's first entry. */

#define NOBODY 255
#ifndef ENTRIES
#define ENTRIES 2
#endif
byte last, first, at;                 /* entries of the lane; the oldest one there; the key's */
byte slot[2];                         /* in the view: number of each generation, or NOBODY; it stands for the token, too */
byte folded[2];                       /* of each slot */
bit current = 1;
bool shard[3], there[3];              /* of each generation: the key's bits; its shards are there */
bool lost[3];                         /* of each: its shards went while the view had it; nobody says "absent" by it */
bool given_up[2];                     /* of each slot: it was not read when the view said that it had lost a shard */
bool denied, mistaken;

#ifdef STORED_WITHOUT_TOKEN
#define IS_OURS true
#else
#define IS_OURS (slot[g % 2] == g)
#endif
#ifdef TRIM_BY_READ_GENERATION
#define LEAST folded[current]
#else
#define LEAST (slot[1 - current] == NOBODY || given_up[1 - current] || folded[1 - current] > folded[current] -> \
               folded[current] : folded[1 - current])
#endif

#ifdef LOST_READ_AGAIN
#define MAY_BE_READ(s) true
#else
#define MAY_BE_READ(s) (!given_up[s])
#endif

proctype caller()
{
    do
    :: atomic { last < ENTRIES -> last++ }
    :: atomic { last < ENTRIES && at == 0 -> last++; at = last }
    :: last == ENTRIES -> break
    od
}

/* Resident since the generation was made; its memory has every entry up to the one applied. */
proctype folder(byte g)
{
    byte applied, noted;
    there[g];
    applied = folded[g % 2];
end:
    do
    :: atomic { first <= applied && last > noted -> applied = last; noted = applied;
           shard[g] = shard[g] || (there[g] && at > 0 && at <= applied) }
       atomic {
           if
           :: IS_OURS && !lost[g] && noted > folded[g % 2] -> folded[g % 2] = noted
           :: else
           fi
       }
       if
       :: atomic { LEAST > first -> first = LEAST }
       :: true
       fi
    od
}

proctype operator()
{
    if
    :: true -> /* a rollback */
        atomic {
            if
            :: slot[1 - current] != NOBODY && MAY_BE_READ(1 - current) -> current = 1 - current;
#ifdef FOLDED_OF_OTHER_GENERATION
                folded[current] = folded[1 - current]
#endif
            :: else
            fi
        }
    :: true
    fi
}

#ifdef LOSS
proctype loss()
{
    byte g;
    bit s;
    atomic {
        s = 1 - current;
        g = slot[s];
        if
        :: g != NOBODY -> there[g] = false; shard[g] = false; lost[g] = true
        :: else
        fi
    }
    atomic {
        if
        :: g != NOBODY && slot[s] == g && s != current -> given_up[s] = true
        :: else
        fi
    }
}
#endif

/* Retires what is not read, deletes its shards, and builds a generation in its slot. */
proctype job()
{
    byte g;
    bit s;
    atomic { s = 1 - current; g = slot[s] }
#ifdef DELETED_BEFORE_FORGOTTEN
    atomic { there[g] = false; shard[g] = false }
#endif
    atomic {
        if
#ifndef RETIRED_WITHOUT_LOOKING
        :: s == current -> g = NOBODY
#endif
        :: else -> slot[s] = NOBODY
        fi;
        mistaken = mistaken || slot[current] == NOBODY;
        assert(!mistaken)
    }
    if
    :: g != NOBODY ->
#ifndef DELETED_BEFORE_FORGOTTEN
        atomic { there[g] = false; shard[g] = false };
#endif
        if
        :: s == 0 -> /* build.pml has how */
            atomic { there[2] = true; shard[2] = at > 0; slot[0] = 2; folded[0] = last;
                given_up[0] = false }
            if
            :: atomic { MAY_BE_READ(0) -> current = 0 }
            :: true
            fi
        :: else
        fi
    :: else
    fi
}

proctype reader()
{
    byte g, from;
    bool key, good;
end:
    do
    :: atomic { g = slot[current]; from = folded[current] } /* a view */
       atomic {
#ifdef MISSING_IS_ZEROS
           good = true;
#else
           good = there[g];
#endif
           mistaken = mistaken || (!there[g] && !lost[g] && g == slot[current]);
           key = shard[g]
       }
       assert(!mistaken);
       do
       :: atomic { good && first <= from && at > 0 -> key = key || at > from; from = last; denied = !key }
          assert(!denied)
       :: atomic { first > from && g == slot[current] -> mistaken = (first > folded[current]) }
          assert(!mistaken)
          break
       :: break
       od
       atomic { g = 0; from = 0; key = false; good = false }
    od
}

init {
    atomic {
        slot[0] = 0;
        slot[1] = 1;
        there[0] = true;
        there[1] = true;
        run caller();
        run folder(0);
        run folder(1);
        run folder(2);
        run operator();
        run job();
#ifdef LOSS
        run loss();
#endif
        run reader()
    }
}
