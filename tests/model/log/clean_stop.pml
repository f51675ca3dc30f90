/* SPDX-License-Identifier: MIT */
/* One node has the view and all else of a filter. It restarts with the data of any earlier moment, under another id.
 * Two coordinators share a state file; each is started, killed and stopped again and again. None has anything in
 * memory, so an id that the view does not accept degrades the filter, unless the file tells that nothing was lost. A
 * coordinator may serve without looking at the filter, which is idle then. README.md says what is left out.
 *
 * denied: the filter is not degraded, and lacks an acknowledged key. */

#ifndef STARTS
#define STARTS 3
#endif
#ifndef IDS
#define IDS 3
#endif
#ifndef KEYS
#define KEYS 1
#endif
typedef data { byte keys, mark, accepted; bool degraded }; /* the number of acknowledged keys that it has */
data node, saved;
byte id = 1, drawn, starts, acknowledged;
byte file_mark, file_ids, file_since; /* mark 0: none; then the history of the ids goes on under `since` */
byte holders;             /* of the shared lock */
bool exclusive;
bool denied;

#define BIT(i) (1 << (i))

inline copy(to, from)
{
    to.keys = from.keys;
    to.mark = from.mark;
    to.accepted = from.accepted;
    to.degraded = from.degraded
}

proctype server()
{
end:
    do
    :: d_step { copy(saved, node) }
    :: d_step { id < IDS -> id++; copy(node, saved) }
    od
}

/* Find out whether the node has the mark of the file; @since is the id that it has by then. */
inline ask()
{
#ifdef ID_BEHIND_MARK
    has = (mark != 0 && node.mark == mark);
    seen = id;
#else
    seen = id;
#ifdef MARK_NOT_COMPARED
    has = (mark != 0);
#else
    has = (mark != 0 && node.mark == mark);
#endif
#endif
    since = (has -> seen : 0)
}

inline draw()
{
    d_step { drawn++; node.mark = drawn; own = drawn }
}

proctype coordinator()
{
    byte mark, ids, since, seen, own, i;
    bool has, mine; /* the exclusive lock */
end:
    do
    :: d_step { starts < STARTS && !exclusive ->
           starts++;
           mine = (holders == 0);
           exclusive = mine;
           mark = file_mark;
           ids = file_ids;
           since = file_since;
           holders = (mine -> 0 : holders + 1) }
       if
       :: mine -> /* before anybody serves */
#ifndef ASKED_LATE
              if
              :: mark != 0 -> ask()
              :: else
              fi;
#endif
              d_step {
                  has = false;
                  seen = 0;
#ifndef MARK_KEPT
                  file_mark = 0;
                  file_since = since;
#endif
                  exclusive = false;
                  mine = false;
                  holders++ }
       :: else
       fi;
       do
       :: seen = id;
#ifdef ASKED_LATE
          ask();
#endif
          d_step {
              if
              :: node.accepted != seen ->
                     node.degraded = node.degraded || !(since == seen && (ids & BIT(node.accepted)) != 0);
                     node.accepted = seen
              :: else
              fi;
              seen = 0; has = false }
       :: d_step { id == node.accepted && !node.degraded -> denied = node.keys < acknowledged; assert(!denied) }
       :: d_step { id == node.accepted && node.keys < KEYS -> node.keys++; acknowledged++ }
#ifdef MARK_BEFORE_END
       :: drawn < STARTS -> draw()
#endif
       :: break
       od;
       if
       :: d_step { holders--; own = 0; since = 0 } /* it is killed */
#ifdef NOT_ALONE
       :: d_step { holders--; mine = !exclusive; exclusive = true }
#else
       :: d_step { holders--; mine = (holders == 0); exclusive = mine }
#endif
          if
          :: !mine -> d_step { own = 0; since = 0 }
          :: else ->
#ifdef ID_BEFORE_MARK
                 i = id;
#endif
#ifndef MARK_BEFORE_END
                 draw();
#endif
#ifndef ID_BEFORE_MARK
                 i = id;
#endif
                 if
                 :: d_step { own != 0 ->
                        file_mark = own;
                        file_since = 0;
#ifdef CHAIN_KEPT
                        file_ids = ids | BIT(i);
#else
                        file_ids = (since == i -> ids | BIT(i) : BIT(i));
#endif
                        exclusive = false }
                 :: exclusive = false /* it is killed */
                 fi;
                 d_step { seen = 0; has = false; own = 0; i = 0; since = 0; mine = false }
          fi
       fi
    od
}

init {
    atomic {
        node.accepted = 1;
        saved.accepted = 1;
        run server();
        run coordinator();
        run coordinator()
    }
}
