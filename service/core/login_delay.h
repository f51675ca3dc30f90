/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_LOGIN_DELAY_H
#define SERVICE_CORE_LOGIN_DELAY_H
/* When may the next login be tried? Failures are counted for each address and name: a few are free, then each
 * one delays the next try from that address with that name, twice as long as the one before. Nobody else is
 * delayed. Time alone forgives: a login that succeeds does not, as others may share its place in the table.
 *
 * The table is of fixed size. It keeps LOGIN_SOURCES addresses (of IPv6 the network of 64 bits) and forgets
 * the one that was used least recently; the names of one address share LOGIN_NAMES places, known and unknown
 * names alike, so that neither a flood of names forgets a failure nor a delay tells whether there is such a
 * user. Pure: times come in, in microseconds of a clock that never goes back. Not safe from several threads.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOGIN_SOURCES = 1024,
    LOGIN_NAMES = 16,
    LOGIN_FREE_FAILURES = 5,
    LOGIN_DELAY_MS = 100, /* after the first failure that is not free */
    LOGIN_DELAY_MS_MAX = 5000,
    LOGIN_FORGET_S = 600 /* after the last failure */
};

enum { LOGIN_WAYS = 4, LOGIN_SETS = LOGIN_SOURCES / LOGIN_WAYS };

/* Embedded by its owner. Zeroed but for the seed, it knows of no failures. */
struct login_delay {
    uint64_t seed; /* random: nobody shall choose whose place he shares */
    uint64_t turns;
    struct login_source {
        uint64_t address; /* a hash; 0: free */
        uint64_t used;    /* the turn, see login_delay_serve() */
        struct login_failures {
            uint64_t last_us;
            uint32_t count;
        } name[LOGIN_NAMES];
    } source[LOGIN_SETS][LOGIN_WAYS];
};

/* Who tries. */
struct login_who {
    uint64_t address; /* a hash */
    unsigned name;    /* a place */
};

/* @address: numbers without a port, or a path. */
struct login_who login_delay_who(const struct login_delay *d, const char *address, const char *name,
                                 size_t name_length);
bool login_who_is(struct login_who a, struct login_who b);

/* From when on the next login may be tried; 0: there is no delay. */
uint64_t login_delay_until_us(const struct login_delay *d, struct login_who who, uint64_t now_us);
void login_delay_failed(struct login_delay *d, struct login_who who, uint64_t now_us);

/* Addresses take turns: whose last one is longest ago comes first; 0: it had none. */
uint64_t login_delay_turn(const struct login_delay *d, struct login_who who);
void login_delay_serve(struct login_delay *d, struct login_who who);
#endif
