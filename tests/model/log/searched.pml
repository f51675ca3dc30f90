/* SPDX-License-Identifier: MIT */
/* A registry is made complete by a search. Filter K was made before there was a registry, and has shards, but no view
 * any more. A maker of K searches the keys, names what it finds, and then says that the registry is complete. The
 * registry may be lost at any time. README.md says what is left out.
 *
 * denied: the registry is complete and does not name K, so K is taken for a filter that never was. */

#define LOSSES 2
bool named, complete, denied;
byte number, drawn, losses;          /* number: of the search; 0: none */

proctype server()
{
end:
    do
    :: atomic { losses < LOSSES -> losses++; named = false; complete = false; number = 0 }
    od
}

proctype searcher()
{
    byte mine;
end:
    do
    :: atomic { !complete && drawn < 4 ->
           if
#ifndef NOT_KEPT
           :: number != 0 -> mine = number
           :: number == 0 -> drawn++; number = drawn; mine = drawn
#else
           :: drawn++; number = drawn; mine = drawn
#endif
           fi };
       named = true; /* the search */
#ifdef SEARCHES_FIRST
       mine = number;
#endif
       atomic {
           if
#ifndef NOT_COMPARED
           :: number != mine || mine == 0 -> skip
           :: number == mine && mine != 0 ->
#else
           :: true ->
#endif
              complete = true; number = 0
           fi };
       mine = 0
    od
}

proctype maker()
{
end:
    do
    :: atomic { complete -> denied = !named; assert(!denied) }
    od
}

init {
    atomic {
        run server();
        run searcher();
        run searcher();
        run maker()
    }
}
