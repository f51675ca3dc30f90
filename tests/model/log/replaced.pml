/* SPDX-License-Identifier: MIT */
/* A generation gets a layer, is replaced, and its grace ends, while a folder of it does nothing. Then the folder meets
 * the mark of the layer, which the view will not have any more, and passes it: behind it K. Home may go back to where
 * the view has the generation. A reader has layer 0 in memory, and reads layer 1 by blocks with the overlay. README.md
 * says what is left out.
 *
 * denied: somebody says "absent" of K after its add was acknowledged. stuck: the folder waits for a layer that
 * nobody will add. */

#define LAYER 1
#define K 2
byte entry[3], last, at_k;             /* entry 0 is the anchor; at_k: the place of K */
bool there = true;                     /* the generation, in the view */
byte layers = 1, number, writer;       /* in the view */
byte folded, folded_layers = 1;        /* the position, and how many layers had begun there */
bool shard[2];                         /* of each layer: the bits of K in it */
bool acknowledged, went_back, denied, stuck;

#ifdef PASSED_IS_KEPT /* what passed the mark is used as before once the view has the generation again */
#define HELD(passed) true
#else
#define HELD(passed) (!(passed))
#endif

proctype home()
{
end:
    do
    :: atomic { there && layers == 1 -> layers = 2 }
    :: atomic { layers == 2 && last < 2 && entry[1] != LAYER -> last++; entry[last] = LAYER }
    :: atomic { !acknowledged && last < 2 -> last++; entry[last] = K; at_k = last; acknowledged = true }
    :: atomic { there -> there = false }
    :: atomic { !there && !went_back -> /* to any earlier state of the view */
           went_back = true;
           there = true;
           if
           :: folded = 0; folded_layers = 1
           :: true
           fi;
           if
           :: writer = 0
           :: true
           fi
       }
    od
}

proctype folder()
{
    byte known = 1, applied, t, view_layers = 1;
    bool m0, m1, passed, view_there = true;
end:
    do
    :: d_step { /* a look at the view */
           view_there = there;
           view_layers = layers;
           if
           :: there && !HELD(passed) -> /* held anew */
               passed = false; t = 0;
               known = folded_layers; applied = folded; m0 = shard[0]; m1 = shard[1]
           :: else
           fi
       }
    :: d_step { applied < last && entry[applied + 1] == LAYER && known == 1 && view_there && view_layers == 2 ->
           applied++;
           known = 2
       }
#ifdef WAITS
    :: d_step { applied < last && entry[applied + 1] == LAYER && known == 1 && !view_there ->
           stuck = !there && went_back;
           assert(!stuck)
       }
#else
    :: d_step { applied < last && entry[applied + 1] == LAYER && known == 1 && !view_there ->
           applied++;
           passed = true
       }
#endif
    :: d_step { applied < last && entry[applied + 1] == LAYER && known == 2 -> applied++ }
    :: d_step { applied < last && entry[applied + 1] == K ->
           applied++;
           m0 = m0 || known == 1;
           m1 = m1 || known == 2
       }
    :: d_step { view_there && there && HELD(passed) && number < 2 -> /* becomes the writer, and adopts what is there */
           number++;
           t = number;
           writer = t;
           m0 = m0 || shard[0];
           m1 = m1 || shard[1]
       }
    :: view_there && HELD(passed) && t != 0 && writer == t -> /* folds */
       shard[0] = shard[0] || m0;
       shard[1] = shard[1] || m1;
       d_step {
           if
           :: there && writer == t && applied > folded -> folded = applied; folded_layers = known
           :: else
           fi
       }
    :: d_step { acknowledged && applied == last && there && HELD(passed) ->
           denied = !m0 && !m1;
           assert(!denied)
       }
    od
}

proctype reader()
{
    byte known = 1, applied, from;
    bool m0, over1;
end:
    do
    :: d_step { applied < last && entry[applied + 1] == LAYER && there && layers == 2 -> applied++; known = 2 }
    :: d_step { applied < last && entry[applied + 1] == K ->
           applied++;
           m0 = m0 || known == 1;
           over1 = (known == 2)
       }
    :: d_step { there && from != folded ->
           from = folded;
           over1 = over1 && from < at_k
       }
    :: d_step { acknowledged && applied == last && there ->
           denied = !m0 && !(known == 2 && (over1 || shard[1]));
           assert(!denied)
       }
    od
}

init {
    atomic {
        run home();
        run folder();
        run reader()
    }
}
