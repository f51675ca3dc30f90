/* SPDX-License-Identifier: MIT */
/* Two lanes and two layers: in which layer a key is set. Lane A: layer 1 begins, then K. Lane B: Y, then layer 1 begins;
 * in layer 0 K has no bit that Y has not. A folder with all shards in memory; a reader that has layer 0 in memory and
 * reads layer 1 by blocks, with an overlay. README.md says what is left out.
 *
 * denied: the reader says "absent" of K after its add was acknowledged. */

#define LENGTH 2
byte last_a, last_b;     /* entries of the lanes: 1 and 2 */
byte folded_a, folded_b; /* positions in the view */
bool shard0, shard1;     /* the bits of K in them, in Redis */
bool denied;

#ifdef OLD_NOT_SET /* a key that an older layer has is not set again */
#define IS_OLD(m) (m)
#else
#define IS_OLD(m) false
#endif
#ifdef ALL_LANES_READ /* a check reads the tails of all lanes, not only of its key's */
#define HAS_READ_B (applied_b == last_b)
#else
#define HAS_READ_B true
#endif

proctype writers()
{
end:
    do
    :: last_a < LENGTH -> last_a++
    :: last_b < LENGTH -> last_b++
    od
}

proctype folder()
{
    byte applied_a, applied_b, noted_a, noted_b;
    bool m0, m1;
end:
    do
    :: d_step { applied_a < last_a ->
           applied_a++;
           m1 = m1 || (applied_a == 2 && !IS_OLD(m0))
       }
    :: d_step { applied_b < last_b -> applied_b++; m0 = true }
    :: noted_a = applied_a; noted_b = applied_b;
       shard0 = shard0 || m0;
       shard1 = shard1 || m1;
       folded_a = noted_a;
       folded_b = noted_b
    od
}

proctype reader()
{
    byte applied_a, applied_b;
    bool m0, over1;
end:
    do
    :: d_step { applied_a < last_a -> applied_a++; over1 = over1 || (applied_a == 2 && !IS_OLD(m0)) }
    :: d_step { applied_b < last_b -> applied_b++; m0 = true }
    :: d_step { over1 && folded_a == 2 -> over1 = false }
    :: atomic { /* a check and its tail read */
           last_a == 2 && applied_a == last_a && HAS_READ_B ->
           denied = !(m0 || shard1 || over1);
           assert(!denied)
       }
    od
}

init {
    atomic {
        run writers();
        run folder();
        run reader()
    }
}
