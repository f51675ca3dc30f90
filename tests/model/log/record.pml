/* SPDX-License-Identifier: MIT */
/* Home fails over, its view takes the new replication id, a key is acknowledged there, and then home's address leads to
 * the first server again, which has an older history of the same incarnation, and was maybe started again. All
 * processes that had seen the later view are gone. Not built: a second node keeps, for each filter, how often the view
 * has taken an id, and which one last; whoever has a view take one writes that first.
 *
 * denied: a process that is new says "absent" of the acknowledged key. */

#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef IDS
#define IDS 4
#endif
typedef state { byte taken, id, own; bool key } /* taken: how often; id: of the view; own: the server's */
state server[SERVERS];
byte home_is, ids = 1, record, record_id; /* of the second node */
bool acknowledged, denied;

/* A view is not believed, nor does it take an id, where the record is of a later one; but for the very id that is being
 * taken. */
#ifdef NOT_ASKED
#define IS_REPLACED(s, r, i) false
#elif defined(ANY_ID)
#define IS_REPLACED(s, r, i) (r > server[s].taken + 1 || (r == server[s].taken + 1 && server[s].id == server[s].own))
#else
#define IS_REPLACED(s, r, i) (r > server[s].taken + 1 || (r == server[s].taken + 1 && server[s].own != i))
#endif

proctype faults()
{
end:
    do
    :: atomic { home_is == 0 && ids < IDS -> home_is = 1; /* the replica has all that the first one had */
           server[1].taken = server[0].taken; server[1].id = server[0].id; server[1].key = server[0].key;
           ids++; server[1].own = ids }
    :: atomic { home_is == 1 -> home_is = 0 }
    :: atomic { ids < IDS -> ids++; server[home_is].own = ids } /* it is started again */
    od
}

/* Has the view of its server take its id; may stop for any time. */
proctype taker()
{
    byte s, n, own, r, i;
end:
    do
    :: atomic { server[home_is].id != server[home_is].own -> s = home_is; n = server[s].taken; own = server[s].own;
           r = record; i = record_id }
       if
       :: atomic { IS_REPLACED(s, r, i) || server[s].own != own -> n = 0; own = 0; s = 0; r = 0; i = 0 }
       :: atomic { !(IS_REPLACED(s, r, i)) && server[s].own == own };
#ifndef RECORDED_AFTER
          atomic { if
             :: record == r && record_id == i -> record = n + 1; record_id = own
             :: else -> goto again
             fi };
#endif
          atomic { if
             :: server[s].taken == n && server[s].own == own -> server[s].taken = n + 1; server[s].id = own
             :: else
             fi };
#ifdef RECORDED_AFTER
          atomic { if
             :: record == r && record_id == i -> record = n + 1; record_id = own
             :: else
             fi };
#endif
again:    atomic { n = 0; own = 0; s = 0; r = 0; i = 0 }
       fi
    od
}

/* Asks the record when it looks, as any process does; it is gone later. */
proctype writer()
{
    byte s, r, i;
    atomic { s = home_is; r = record; i = record_id };
    if
    :: atomic { !(IS_REPLACED(s, r, i)) && server[s].id == server[s].own && home_is == s ->
           server[s].key = true; acknowledged = true }
    :: true
    fi
}

/* New. The view, then the record, then the tail of the lane of that server. */
proctype reader()
{
    byte s, r, i, own;
    bool began;
#ifdef RECORD_FIRST
    atomic { r = record; i = record_id };
#endif
    atomic { s = home_is; own = server[s].id; began = acknowledged };
#ifndef RECORD_FIRST
    atomic { r = record; i = record_id };
#endif
    if
    :: atomic { !(IS_REPLACED(s, r, i)) && server[s].own == own && began && s == home_is ->
           denied = !server[s].key; assert(!denied) }
    :: true
    fi
}

init {
    atomic {
        server[0].own = 1; server[0].id = 1; server[0].taken = 1; record = 1; record_id = 1;
        run faults(); run taker(); run taker(); run writer(); run reader()
    }
}
