/* SPDX-License-Identifier: MIT */
/* Home goes back to an older state, once, which lacks a writer that has acknowledged a key, and may be dead. Its lane's
 * node fails over and loses the key. Whoever has seen it registered, itself included, enters it again: it knows that the
 * view went back, as the writer is missing, and the view does not say that this registration has ended. Nothing is
 * folded.
 *
 * denied: a process that has seen the registration under which the key was acknowledged says "absent" of it. */

#ifndef FAILOVERS
#define FAILOVERS 2
#endif
#ifndef REGISTRATIONS
#define REGISTRATIONS 3
#endif
typedef state { byte era, version, left, number; byte said }; /* number: of the registration; 0: none */
state view, noted;
byte era = 1, failovers, given, under; /* under: the registration that the key was acknowledged under */
bool in_lane, acknowledged, back, is_noted, denied;
bool degraded; /* does not go back here: an operator has been told */

inline copy(to, from)
{
    to.era = from.era; to.version = from.version; to.left = from.left; to.number = from.number;
    to.said = from.said
}

#ifdef BY_VERSION
#define WENT_BACK (view.version < s_version)
#elif defined(LEFT_WITHOUT_NUMBER)
#define WENT_BACK (s_number > 0 && view.number == 0 && view.left == 0)
#else
#define WENT_BACK (s_number > 0 && view.number == 0 && view.left < s_number)
#endif

/* What has been seen is s_number, s_era, s_version. */
inline restore()
{
    if
#ifndef NOT_RESTORED
    :: WENT_BACK && given < REGISTRATIONS ->
        if
        :: view.number == 0 -> given++; view.number = given; view.version++; view.said = 0
        :: else
        fi;
        if
#ifndef ERA_STAYS
        :: view.era != s_era -> view.era = 0
#endif
        :: else
        fi
    :: WENT_BACK && given == REGISTRATIONS -> degraded = true /* it ends here */
    :: !(WENT_BACK)
#else
    :: true
#endif
    fi;
    s_number = view.number; s_era = view.era; s_version = view.version
}

proctype home()
{
end:
    do
    :: atomic { !is_noted && !back -> is_noted = true; copy(noted, view) }
    :: atomic { is_noted -> is_noted = false; back = true; copy(view, noted);
           noted.era = 0; noted.version = 0; noted.left = 0; noted.number = 0; noted.said = 0 }
    :: atomic { failovers < FAILOVERS -> failovers++; era++;
           if
           :: in_lane = false
           :: skip
           fi }
       /* anybody has it take the era, when all have answered */
    :: atomic { view.era != era && (view.number == 0 || view.said == era) -> view.era = era; view.version++ }
       /* the writer does not answer */
    :: atomic { view.era != era && view.number > 0 ->
           view.left = view.number; view.number = 0; degraded = true; view.version++ }
    od
}

proctype adder()
{
    byte own_era, s_number, s_era, s_version;
    atomic { given++; view.number = given; view.version++; s_number = given; s_era = view.era; s_version = view.version }
end:
    do
    :: atomic { view.era == era && view.number > 0 && own_era == 0 -> own_era = era; in_lane = true; acknowledged = true;
           under = view.number }
    :: atomic { own_era != 0 && own_era != era && view.number > 0 -> own_era = era; in_lane = true; view.said = era }
    :: atomic { own_era == 0 && view.number == 1 && !acknowledged -> /* leaves, once */
           view.left = 1; view.number = 0; view.version++; s_number = 0; s_era = view.era; s_version = view.version }
    :: atomic { view.number == 0 || view.version != s_version -> restore();
           if
           :: view.number == 0 && given < REGISTRATIONS ->
               given++; view.number = given; view.version++; s_number = given; s_version = view.version
           :: else
           fi }
    od
}

proctype witness()
{
    byte s_number, s_era, s_version, highest;
    atomic { view.number > 0 && !back -> s_number = view.number; s_era = view.era; s_version = view.version;
        highest = s_number }
end:
    do
    :: atomic { s_version != view.version || s_era != view.era || s_number != view.number -> restore();
           highest = (s_number > highest -> s_number : highest) }
       /* a tail read under the era of the view that it has read */
    :: atomic { acknowledged && s_era == era && s_version == view.version && s_number == view.number ->
           denied = !in_lane && !degraded && highest >= under;
           assert(!denied) }
    od
}

init {
    atomic {
        view.era = 1;
        view.version = 1;
        run home();
        run adder();
        run witness()
    }
}
