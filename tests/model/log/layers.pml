/* SPDX-License-Identifier: MIT */
/* A generation gets a second layer, made by two at once. An entry of the lane says from where on entries go into it; two
 * folders and a reader apply them. Two keys, K and Y: in layer 0 K has no bit that Y has not, so that K is present where
 * layer 0 has Y; it is set in the layer of its place in the lane all the same. README.md says what is left out.
 *
 * denied: the reader says "absent" of K after its add was acknowledged. */

#ifndef TOKENS
#define TOKENS 2
#endif
#define LENGTH 4
#define Y 1
#define K 2
#define LAYER 3 /* from here on entries go into layer 1 */
byte entry[LENGTH], last, first; /* entry 0 is the anchor */
byte layers = 1, number, writer;  /* in the view */
byte folded, folded_layers = 1;   /* and: the position, and how many layers had begun there */
bool made;                        /* the shard of layer 1 */
bool shard[2];                    /* of each layer: the bits of K in it */
byte header[2];
bool y, acknowledged, denied;

#ifdef OLD_NOT_SET /* a key that an older layer has is not set again */
#define IS_OLD(m) (m)
#else
#define IS_OLD(m) false
#endif
#ifdef FILLER /* Y has no bit of K */
#define SETS(e) ((e) == K)
#else
#define SETS(e) ((e) != LAYER)
#endif
#ifdef BY_KEYS /* a shard that is not in memory gets the keys up to the position, no later ones */
#define WRITES(has, all, upto) ((has) || (upto))
#else
#define WRITES(has, all, upto) (all)
#endif
#ifdef COUNT_LATER
#define NOTED_LAYERS known
#else
#define NOTED_LAYERS noted_layers
#endif
#ifdef LAYERS_OF_VIEW /* whoever applies an entry puts it into the newest layer of the view that it has */
#define BEGINS(e) false
#define LAYERS_AT_FOLDED layers
#define LEARNS(known) (known < layers)
#else
#define BEGINS(e) ((e) == LAYER)
#ifdef FOLDED_WITHOUT_LAYERS
#define LAYERS_AT_FOLDED layers
#else
#define LAYERS_AT_FOLDED folded_layers
#endif
#define LEARNS(known) false
#endif
#ifdef GOES_BACK_TO_FOLDED
#define GOES_BACK true
#else
#define GOES_BACK false
#endif
/* A layer that had not begun where a process begins to read the lane is whole in memory without being read: empty, and
 * what is applied from there on. As long as nothing of it has left the overlay. */
#ifdef NEW_LAYER_NOT_READ /* by a folder that takes it over */
#define READ(s) false
#else
#define READ(s) (s)
#endif
#ifdef EMPTY_WHEN_BEGUN
#define LOADS_NOTHING(l) true
#else
#define LOADS_NOTHING(l) ((l) == 1)
#endif
#ifdef STORED_BY_NEWEST
#define MAY_STORE (known == layers)
#else
#define MAY_STORE true
#endif

proctype caller()
{
end:
    do
#ifndef ONE_KEY
    :: atomic { !y -> y = true; last++; entry[last] = Y }
#endif
    :: atomic { !acknowledged -> last++; entry[last] = K; acknowledged = true }
    od
}

proctype grower()
{
    atomic {
        if
#ifndef MADE_OVER
        :: made
#endif
        :: else -> made = true; shard[1] = false; header[1] = 0
        fi
    }
    layers = 2;
#ifndef LAYERS_OF_VIEW
    atomic {
        if
        :: last < LENGTH - 1 && entry[1] != LAYER && entry[2] != LAYER && entry[3] != LAYER -> last++; entry[last] = LAYER
        :: else /* the second one changes nothing */
        fi
    }
#endif
}

/* Entries behind the position: m0 and m1 are the bits of K in the layers in memory. */
inline apply_entry(e_)
{
    if
    :: BEGINS(e_) -> known = 2
    :: known == 1 && SETS(e_) -> m0 = true
    :: known == 2 && (e_) == K && !IS_OLD(m0) -> m1 = true
    :: else
    fi
}

inline adopt(l_)
{
    if
    :: header[l_] < t -> header[l_] = t
    :: header[l_] == t
    :: else -> t = 0
    fi
}

proctype folder()
{
    byte known = 1, t, applied, noted, noted_layers;
    bool m0, m1, n0, n1, whole, have1;
end:
    do
    :: atomic { number < TOKENS -> number++; t = number; writer = t; have1 = false }
       if
       :: atomic { !whole -> known = LAYERS_AT_FOLDED; applied = folded } /* it has loaded nothing yet */
       :: whole
       fi;
       d_step { adopt(0) }
       d_step {
           if
           :: t != 0 && known == 2 -> adopt(1)
           :: else
           fi
       }
       d_step {
           if
           :: t != 0 -> m0 = m0 || shard[0]; whole = true;
               have1 = (known == 2);
               m1 = m1 || (have1 && READ(shard[1]))
           :: else
           fi
       }
    :: d_step { whole && applied < last ->
           if
           :: first > applied -> whole = false; t = 0; have1 = false; m0 = false; m1 = false; applied = 0; noted = 0;
               n0 = false; n1 = false
           :: else -> applied++; apply_entry(entry[applied])
           fi
       }
#ifdef LAYERS_OF_VIEW
    :: atomic { whole && known < layers -> known = 2; applied = (GOES_BACK && folded < applied -> folded : applied) }
#endif
    :: whole && known == 2 && t != 0 && !have1 -> /* takes the new layer over, too */
       d_step { adopt(1) }
       d_step {
           have1 = true;
           m1 = m1 || READ(shard[1])
       }
    :: d_step { whole && noted != applied -> noted = applied; noted_layers = known; n0 = m0; n1 = m1 }
    :: whole && t != 0 && (known == 1 || have1) -> /* folds all layers that it knows */
       d_step {
           if
           :: header[0] == t -> shard[0] = WRITES(shard[0], m0, n0)
           :: else -> t = 0
           fi
       }
       d_step {
           if
           :: t != 0 && known == 2 && header[1] == t && have1 -> shard[1] = WRITES(shard[1], m1, n1)
           :: t != 0 && known == 2 && header[1] != t -> t = 0; have1 = false
           :: else
           fi
       }
       d_step {
           if
           :: t != 0 && writer == t && noted > folded && MAY_STORE -> folded = noted; folded_layers = NOTED_LAYERS
           :: else
           fi
       }
       if
       :: first = (t != 0 && folded > first -> folded : first)
       :: true
       fi
    od
}

/* Has shards in memory, or not: these are read by blocks, with the overlay. */
proctype reader()
{
    byte known, from, from_layers, applied, left;
    bool m0, m1, in0, in1, leaving;
    bool over0[LENGTH], over1[LENGTH]; /* the overlay: entries, of each layer */
    bool key;
    atomic { known = LAYERS_AT_FOLDED; applied = folded; from = folded; from_layers = folded_layers }
end:
    do
    :: d_step { applied < last ->
           if
           :: first > applied -> /* all again */
               m0 = false; m1 = false; in0 = false; in1 = false; leaving = false;
               over0[1] = false; over0[2] = false; over1[1] = false; over1[2] = false;
               over0[3] = false; over1[3] = false;
               known = LAYERS_AT_FOLDED; applied = folded; from = folded; from_layers = folded_layers
           :: else ->
               applied++;
               over0[applied] = known == 1 && (!in0 || leaving) && SETS(entry[applied]);
               over1[applied] = known == 2 && !in1 && entry[applied] == K;
               apply_entry(entry[applied]);
               m0 = m0 && in0;
               m1 = m1 && in1
           fi
       }
    :: d_step { LEARNS(known) || from != folded -> /* a view */
           from = folded;
           from_layers = folded_layers;
#ifdef LAYERS_OF_VIEW
           applied = (LEARNS(known) && GOES_BACK && folded < applied -> folded : applied);
           known = layers;
#endif
           if
           :: from >= 1 -> over0[1] = false; over1[1] = false
           :: else
           fi;
           if
           :: from >= 2 -> over0[2] = false; over1[2] = false
           :: else
           fi;
           if
           :: from >= 3 -> over0[3] = false; over1[3] = false
           :: else
           fi
       }
    :: d_step { !in0 -> in0 = true; m0 = shard[0] || over0[1] || over0[2] || over0[3] }
    :: d_step { !in1 && known == 2 -> in1 = true; m1 = shard[1] || over1[1] || over1[2] || over1[3] }
    :: d_step { !in1 && known == 2 && LOADS_NOTHING(from_layers) -> in1 = true; m1 = over1[1] || over1[2] || over1[3] }
    :: d_step { in0 && !leaving -> leaving = true; left = applied }
    :: d_step { leaving && from >= left -> leaving = false; in0 = false; m0 = false; left = 0 }
    :: atomic { /* a check, its tail read and its block reads: */
           acknowledged && applied == last ->
           key = (in0 -> m0 : shard[0] || over0[1] || over0[2] || over0[3]) ||
                 (known == 2 && (in1 -> m1 : shard[1] || over1[1] || over1[2] || over1[3]));
           denied = !key;
           assert(!denied);
           key = false
       }
    od
}

init {
    atomic {
        run caller();
        run grower();
        run folder();
#ifdef TWO_FOLDERS
        run folder();
#endif
#ifdef TWO_GROWERS
        run grower();
#endif
        run reader()
    }
}
