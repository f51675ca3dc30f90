/* SPDX-License-Identifier: MIT */
/* Home goes back behind a layer: the view has neither the layer nor the positions of since. The lane has the mark that
 * the layer begins, and behind it K. A folder and a reader by blocks, which know the layer and put it back; a grower,
 * which does not know it and makes another one under its name; either may stop for any time. README.md says what is
 * left out.
 *
 * denied: the reader says "absent" of K after its add was acknowledged. */

#define K 2                    /* its place in the lane; the mark is at 1, the anchor at 0 */
#define T1 1                   /* tokens of layers: the one that there was, */
#define T2 2                   /* the grower's */
byte last = 1, first;          /* entries of the lane; the oldest one there */
byte layer = T1, next, folded; /* in the view; folded: 0 or K */
bool bits, went_back;
byte made = T1;                /* the layer's shard: whether K is in it; the token that it was made under */
bool denied;

#ifdef NEXT_NOT_COMPARED
#define NOBODY_MAKES true
#else
#define NOBODY_MAKES (next == 0)
#endif
#ifdef GROWS_OVER /* the end of growing compares only its own `next` */
#define MAY_END (next == T2)
#else
#define MAY_END (layer == 0 && next == T2)
#endif

inline put_back()
{
    layer == 0 && known == T1 && NOBODY_MAKES -> layer = T1
}

proctype home()
{
end:
    do
    :: atomic { last < K -> last = K }
    :: atomic { !went_back -> went_back = true; layer = 0; next = 0; folded = 0 }
    od
}

proctype grower()
{
    atomic { layer == 0 -> next = T2 }
#ifdef MADE_OVER /* the shard that is there is replaced by an empty one, not taken over */
    atomic { made = T2; bits = false }
#else
    made = T2;
#endif
    atomic {
        if
        :: MAY_END -> layer = T2; next = 0
        :: else
        fi
    }
}

/* It has the layer in memory. */
proctype folder()
{
    byte known = T1;
    bool has, dirty;
end:
    do
    :: atomic { last == K && !has && known != 0 -> has = true; dirty = true }
    :: atomic { dirty && layer == known && made == known -> bits = true; dirty = false }
    :: atomic { has && !dirty && layer == known && folded < K -> folded = K }
    :: atomic { folded == K && first < K -> first = K } /* trimmed */
    :: atomic { put_back() }
    :: atomic { layer != 0 && layer != known -> /* another one: all is read again, from folded */
           if
           :: first <= folded -> known = layer; has = bits; dirty = false
           :: else -> known = 0 /* a gap */
           fi
       }
    od
}

proctype reader()
{
    byte known = T1;
    bool over, applied;
end:
    do
    :: atomic { last == K && !applied && known != 0 -> applied = true; over = true }
    :: atomic { over && layer == known && folded == K -> over = false }
    :: atomic { put_back() }
    :: atomic { layer != 0 && layer != known ->
           if
           :: first <= folded -> known = layer; applied = (folded == K); over = false
           :: else -> known = 0
           fi
       }
    :: atomic { last == K && applied && known != 0 && made >= known -> /* K is acknowledged; a block and the overlay */
           denied = !(bits || over);
           assert(!denied)
       }
    od
}

init {
    atomic {
        run home();
        run grower();
        run folder();
        run reader()
    }
}
