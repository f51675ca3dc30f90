/* SPDX-License-Identifier: MIT */
/* Adding and checking: one lane, one key that two processes add, each of which loads the shard, and a connection that
 * breaks behind an entry that is executed later. Each process has one applier, which all of its workers share, and one
 * tail read under way at a time. README.md says what is left out.
 *
 * denied: a check that began after the add was acknowledged says "absent".
 * twice: the key is said to be new twice. unclaimed: both adds were acknowledged, and it was new in neither. */

#define LENGTH 5
typedef process {
    byte applied; /* entries of the lane */
    bool key;     /* its bits */
    bool fresh;   /* the own add's entry made the key: kept until its owner has seen it */
    bool met      /* the own add's entry was applied */
};
process memory[2];
byte entry[LENGTH]; /* 0: of another key; w + 1: of process w's add */
byte length;
bool late[2];       /* sent over a connection that broke */
byte breaks;
bool acknowledged, denied, twice, unclaimed;
#ifdef ACKNOWLEDGED_WITHOUT_ENTRY
#define ACKNOWLEDGED_UNSEEN true
#else
#define ACKNOWLEDGED_UNSEEN false
#endif
bool told[2], was_new[2];

inline append(w_)
{
    if
    :: length < LENGTH -> entry[length] = w_ + 1; length++
    :: else
    fi
}

/* The reply of a tail read that saw the first upto_ entries. */
inline apply(p, upto_)
{
    do
    :: memory[p].applied < upto_ ->
        if
        :: entry[memory[p].applied] == p + 1 ->
#ifdef LAST_OF_OWN_DECIDES
            memory[p].fresh = !memory[p].key;
#else
            if
            :: !memory[p].met -> memory[p].fresh = !memory[p].key
            :: else
            fi;
#endif
            memory[p].met = true;
            memory[p].key = true
        :: entry[memory[p].applied] != 0 && entry[memory[p].applied] != p + 1 -> memory[p].key = true
        :: else
        fi;
        memory[p].applied++
    :: else -> break
    od
}

/* One tail read of a process after the other; who waits is served by one that began after it came. */
bool wanted[2], reading[2];
byte generation[2]; /* reads that began */
proctype tail(bit p)
{
    byte upto;
end:
    do
    :: wanted[p] ->
        atomic { wanted[p] = false; generation[p] = generation[p] + 1; reading[p] = true };
        upto = length; /* Redis executes it */
        atomic { apply(p, upto); upto = 0; reading[p] = false }
    od
}

/* The read that is waited for: the next one to begin, or (broken) the one that is under way. */
inline wait_for_tail(p)
{
    atomic {
#ifdef JOINS_READ_UNDER_WAY
        if
        :: reading[p] -> turn = generation[p]
        :: else -> wanted[p] = true; turn = generation[p] + 1
        fi
#else
        wanted[p] = true;
        turn = generation[p] + 1
#endif
    };
    atomic { generation[p] > turn || (!reading[p] && generation[p] == turn) -> turn = 0 }
}

/* The shard is read, folded up to any entry: the position that the load began with is older, or not. */
inline load(p)
{
    atomic {
        if
        :: entry[0] != 0 || entry[1] != 0 || entry[2] != 0 -> memory[p].key = true
        :: skip
        fi
    }
}

proctype adder(bit p)
{
    byte turn;
    bool sent;
#ifndef SENT_BEFORE_BASE
    load(p);
#ifndef SENT_BEFORE_TAIL
    wait_for_tail(p);
#endif
#endif
again:
    if
    :: atomic { append(p) }
    :: atomic { breaks == 0 -> breaks++; late[p] = true }
    fi;
#ifdef SENT_BEFORE_BASE
    load(p);
#endif
    wait_for_tail(p);
    atomic {
        if
        :: memory[p].met || ACKNOWLEDGED_UNSEEN ->
            acknowledged = true;
            told[p] = true;
            was_new[p] = memory[p].fresh;
            twice = was_new[0] && was_new[1];
            assert(!twice);
            unclaimed = told[0] && told[1] && !was_new[0] && !was_new[1];
            assert(!unclaimed)
        :: else -> goto again
        fi
    }
}

proctype network()
{
end:
    do
    :: atomic { late[0] -> late[0] = false; append(0) }
    :: atomic { late[1] -> late[1] = false; append(1) }
    od
}

/* Another worker of either process. */
proctype checker(bit p)
{
    byte turn;
    acknowledged;
    if
    :: atomic { memory[p].key -> skip } /* at once */
    :: else ->
        wait_for_tail(p);
        atomic { denied = !memory[p].key; assert(!denied) }
    fi
}

init {
    atomic {
        run tail(0);
        run tail(1);
        run adder(0);
        run adder(1);
        run network();
        run checker(0);
        run checker(1)
    }
}
