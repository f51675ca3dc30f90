/* SPDX-License-Identifier: MIT */
/* A shard that is not resident: GETRANGE of its block, and an overlay of the entries after folded. Two generations, each
 * folded by itself; the view changes from one to the other. One key, whose entry is the lane's only one.
 *
 * denied: "absent" of the key after its add was acknowledged. */

bool entry, shard[2], folded[2]; /* folded: behind the key's entry */
bit current;
bool acknowledged, denied;

proctype rest()
{
end:
    do
    :: atomic { !entry -> entry = true; acknowledged = true }
    :: atomic { entry && !shard[0] -> shard[0] = true }
    :: atomic { entry && !shard[1] -> shard[1] = true }
    :: atomic { shard[0] && !folded[0] -> folded[0] = true }
    :: atomic { shard[1] && !folded[1] -> folded[1] = true }
    :: atomic { current == 0 -> current = 1 }
    od
}

#ifdef DROPS_UNDER_READ
#define NO_READ_UNDER_WAY true
#else
#define NO_READ_UNDER_WAY (!sent)
#endif
#ifdef FOLDED_OF_OTHER_VIEW
#define FOLDED_OF (1 - g)
#else
#define FOLDED_OF g
#endif

/* A process: what it knows of the view, its overlay, and one check at a time. */
proctype reader()
{
    bit g, asked;
    bool overlay, applied, must, sent, read, block, tail;
end:
    do
    :: atomic { !sent -> must = acknowledged; sent = true; asked = g }
    :: atomic { sent && !read -> block = shard[asked]; read = true } /* Redis executes GETRANGE */
    :: atomic { sent && !tail -> /* a tail read that began after the check */
           if
           :: entry && !applied -> overlay = true; applied = true
           :: else
           fi;
           tail = true
       }
    :: atomic { sent && read && tail ->
           denied = must && !block && !overlay;
           assert(!denied);
           sent = false; read = false; block = false; tail = false; must = false; asked = 0
       }
    :: atomic { /* a view is read: folded and which generation, together */
           g != current ->
           g = current;
#ifndef OLD_READS_COUNT
           read = false;
           block = false;
           asked = g;
#endif
           overlay = applied && !folded[g] /* loaded again from its folded */
       }
    :: atomic { /* folded has passed the entry */
           overlay && folded[FOLDED_OF] && NO_READ_UNDER_WAY -> overlay = false
       }
    od
}

init { atomic { run rest(); run reader() } }
